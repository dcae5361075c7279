package console_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"kernos/kernel"
	"kernos/message"
)

// Code that came from a session is shown as that. The owner's browser adopts it; others show the command that does.
func TestCodeOfASessionIsAdopted(t *testing.T) {
	w := open(t)
	var chat struct{ Session string }
	if err := json.Unmarshal(w.ask("Session.Create", message.KindCommand, `{"system":"-","policy":[{"match":"*","decide":"allow"},{"match":"*","reach":"*","decide":"allow"}]}`), &chat); err != nil {
		t.Fatal(err)
	}
	register := func(from kernel.Sender, name, code string) {
		t.Helper()
		data, err := json.Marshal(map[string]any{"name": name, "kind": "query", "description": "Try.", "inputSchema": map[string]any{}, "outputSchema": map[string]any{}, "code": code})
		if err != nil {
			t.Fatal(err)
		}
		m := message.Message{Kind: message.KindCommand, Type: "Syscall.Register", Data: data}
		if answer, err := w.daemon.Call(kernel.ActFor(t.Context(), from), m, nil); err != nil || answer.Kind != message.KindReply {
			t.Fatalf("%s: %v %s", name, err, answer.Data)
		}
	}
	register(kernel.From(nil, ""), "Own.Code", "export const handler = () => 1")
	register(kernel.From(nil, "").In(chat.Session), "Their.Code", "export const handler = () => '<i>theirs</i>'")
	sessions := func() string {
		return string(w.ask("Syscall.Describe", message.KindQuery, `{"name":"Their.Code"}`))
	}
	const note = `document.querySelector('[data-testid=adoption]')`
	w.goTo("/call/their/code")
	w.wait(note + `?.textContent.includes("kernos register --adopt Their.Code")`)
	if got := eval[string](w, note+`.textContent`); !strings.Contains(got, chat.Session) || !strings.Contains(got, "kernos console --owner") {
		t.Errorf("other browsers are shown %q", got)
	}
	if eval[bool](w, note+`.querySelector("button, pre") !== null`) {
		t.Error("another browser is offered a button, or the code")
	}
	link, err := w.daemon.ConsoleURL(true)
	if err != nil {
		t.Fatal(err)
	}
	eval[bool](w, fmt.Sprintf(`setTimeout(() => { location.href = %q; }), true`, link))
	w.wait(`document.querySelector('[data-testid=owner]')`)
	w.goTo("/call/own/code")
	w.wait(`document.querySelector('[data-testid=run]:not(:disabled)') && document.querySelector('.ask h2').textContent === "Own.Code"`)
	if eval[bool](w, note+` !== null`) {
		t.Error("code of the owner is offered for adoption")
	}
	w.goTo("/call/their/code")
	w.wait(note + `?.querySelector("pre")?.textContent === "export const handler = () => '<i>theirs</i>'"`)
	w.click(`[data-testid=adopt]`)
	w.wait(note + `?.textContent.includes("Have you read it?")`)
	if !strings.Contains(sessions(), chat.Session) {
		t.Error("the code was adopted by the first press")
	}
	w.click(`[data-testid=adopt]`)
	w.wait(note + ` === null`)
	if got := sessions(); strings.Contains(got, chat.Session) {
		t.Errorf("the code is still under the rules of the session: %s", got)
	}
}

// A browser that keeps no keys says why, and what helps, and a link stays good for another one.
func TestABrowserThatKeepsNothing(t *testing.T) {
	w := &world{T: t, home: t.TempDir()}
	w.serve()
	w.newPage()
	link, err := w.daemon.ConsoleURL(false)
	if err != nil {
		t.Fatal(err)
	}
	const blocked = `IDBFactory.prototype.open = () => { throw new DOMException("The operation is insecure.", "SecurityError"); };`
	w.blocks(blocked)
	w.do(chromedp.Navigate(link))
	w.wait(`/did not let the browser in.*keeps no keys.*isn't private/.test(document.querySelector('[data-testid=refused]')?.textContent) && document.querySelector('[data-testid=status]').dataset.status === "signed-out"`)
	w.do(chromedp.Navigate("http://" + w.daemon.Address + "/"))
	w.wait(`document.querySelector('[data-testid=refused]')?.textContent.includes("keeps no keys") && document.querySelector('[data-testid=status]').dataset.status === "signed-out"`)
	w.newPage()
	w.blocks(`IDBObjectStore.prototype.put = () => { throw new DOMException("A key can't be cloned.", "DataCloneError"); };`)
	w.do(chromedp.Navigate(link))
	w.wait(`document.querySelector('[data-testid=refused]')?.textContent.includes("keeps no keys")`)
	w.newPage()
	w.enter(link)
}
