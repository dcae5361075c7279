package console_test

import (
	"os"
	"testing"

	"github.com/chromedp/chromedp"
)

// picture keeps a picture of the page.
func (w *world) picture(path string) {
	w.Helper()
	png, err := chromedp.Run(w.ctx, chromedp.CaptureScreenshot())
	if err != nil {
		w.fail(err)
	}
	if err := os.WriteFile(path, png, 0o600); err != nil {
		w.Fatal(err)
	}
}

func TestCall(t *testing.T) {
	w := open(t)
	w.goTo("/call/memory/set")
	w.fill(`[data-field="/key"] textarea`, "notes/1")
	w.fill(`[data-field="/value"] textarea`, `{"milk":2}`)
	w.click(`[data-testid=run]`)
	w.wait(`document.querySelector('[data-testid=answer]')?.dataset.status === "done"`)
	w.picture("/tmp/w5/shot1.png")
	if got := w.ask("Memory.Get", "query", `{"key":"notes/1"}`); string(got) != `{"milk":2}` {
		t.Errorf("memory has %s", got)
	}
	w.goTo("/call/memory/get")
	w.fill(`[data-field="/key"] textarea`, "nope")
	w.click(`[data-testid=run]`)
	w.wait(`document.querySelector('[data-testid=answer]')?.dataset.status === "failed"`)
	w.theme("dark")
	w.picture("/tmp/w5/shot2.png")
	w.goTo("/call/http/fetch")
	w.wait(`document.querySelector('[data-field="/url"]')`)
	w.do(chromedp.EmulateViewport(390, 844))
	w.picture("/tmp/w5/shot3.png")
}

func TestMessages(t *testing.T) {
	w := open(t)
	w.ask("Memory.Set", "command", `{"key":"notes/1","value":"milk"}`)
	w.goTo("/messages")
	w.wait(`[...document.querySelectorAll('.message')].some((row) => row.textContent.includes("milk"))`)
	w.ask("Memory.Set", "command", `{"key":"notes/2","value":"honey"}`) // while it is open
	w.wait(`[...document.querySelectorAll('.message')].some((row) => row.textContent.includes("honey"))`)
	w.fill(`[data-testid=filter]`, "kind:command honey")
	w.wait(`document.querySelectorAll('.message').length === 1`)
	w.click(`.message`)
	w.wait(`document.querySelectorAll('[data-testid=inspector] .one').length === 2`)
	w.picture("/tmp/w5/shot4.png")
	w.fill(`[data-testid=filter]`, "knd:command")
	w.wait(`document.querySelector('[data-testid=problem]')?.textContent.includes("did you mean kind")`)
}
