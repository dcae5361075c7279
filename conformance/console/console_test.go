package console_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

func TestMessages(t *testing.T) {
	w := open(t)
	w.ask("Memory.Set", "command", `{"key":"large","value":{"list":[`+strings.Repeat("1234567,", 20_000)+`1]}}`)
	w.send("large", "", "", "query", "Memory.Get", `{"key":"large"}`)
	w.ask("Memory.Set", "command", `{"key":"notes/1","value":"milk"}`)
	w.goTo("/messages")
	w.wait(`[...document.querySelectorAll('.message')].some((row) => row.textContent.includes("milk"))`)
	w.ask("Memory.Set", "command", `{"key":"notes/2","value":"honey"}`) // while it is open
	w.wait(`[...document.querySelectorAll('.message')].some((row) => row.textContent.includes("honey"))`)
	w.fill(`[data-testid=filter]`, "kind:command honey")
	w.wait(`document.querySelectorAll('.message').length === 1`)
	w.wait(`location.hash.includes("filter=kind")`)
	w.click(`.message`)
	w.wait(`document.querySelectorAll('[data-testid=inspector] .one').length === 2`)
	w.goTo("/messages/large") // whose reply is in a blob
	w.click(`[data-testid=blob] button`)
	w.wait(`document.querySelector('[data-testid=blob] .json')?.textContent.includes('"list": [')`)
	w.click(`[data-testid=blob] button`)
	w.wait(`!document.querySelector('[data-testid=blob] .json')`)
	w.fill(`[data-testid=filter]`, "knd:command")
	w.wait(`document.querySelector('[data-testid=problem]')?.textContent.includes("did you mean kind")`)
}

// The palette reaches views, methods and actions by keys alone.
func TestKeys(t *testing.T) {
	w := open(t)
	w.do(chromedp.KeyEvent("g"), chromedp.KeyEvent("m"))
	w.wait(`document.querySelector('[data-view=messages]')`)
	eval[bool](w, `document.dispatchEvent(new KeyboardEvent("keydown", {key: "k", ctrlKey: true, bubbles: true}))`)
	w.do(chromedp.WaitVisible(chromedp.CSS(`[data-testid=palette] input`)))
	w.do(chromedp.KeyEvent("memory.get"))
	w.wait(`document.querySelector('[data-testid=palette] li[aria-selected=true]')?.textContent.startsWith("Memory.Get")`)
	w.do(chromedp.KeyEvent("\r"))
	w.wait(`location.hash === "#/call/memory/get"`)
	w.wait(`!document.querySelector('[data-testid=palette]').open`)
	eval[bool](w, `(() => { document.activeElement.blur(); return true; })()`)
	w.do(chromedp.KeyEvent("?"))
	w.do(chromedp.WaitVisible(chromedp.CSS(`[data-testid=sheet]`)))
	w.do(chromedp.KeyEvent("\x1b"))
	w.goTo("/workflows")
	w.wait(`document.querySelector('[data-testid=workflows] .bar')`)
	w.goTo("/memory/none") // which isn't the name of a workflow
	w.wait(`document.querySelector('[data-testid=entry] .empty')`)
	if failed := w.ask("Message.List", "query", `{"kind":"error"}`); strings.Contains(string(failed), "Message.") {
		t.Errorf("what was looked for is recorded as failed calls: %s", failed)
	}
}

// The keyboard reaches the first field in a few steps: a list is one stop, whose arrows, Home and End go through it, and Enter opens
// what has the focus. The first stop skips all that is before the content.
func TestTabs(t *testing.T) {
	w := open(t)
	press := func(key, until string) {
		t.Helper()
		w.do(chromedp.KeyEvent(key))
		w.wait(until)
	}
	at := func(selector string) string { return fmt.Sprintf("document.activeElement.matches(%q)", selector) }
	const field = `[data-field="/key"] textarea`
	w.goTo("/call/memory/set")
	w.wait(`document.querySelector('` + field + `') && document.querySelector('[data-testid=run]:enabled')`)
	press(kb.Tab, at(".skip"))
	press(kb.Enter, at(field))
	eval[bool](w, `document.querySelector(".skip").focus(), true`)
	tabs, been := 0, ""
	for ; tabs < 100 && !eval[bool](w, at(field)); tabs++ {
		w.do(chromedp.KeyEvent(kb.Tab))
		been += eval[string](w, `document.activeElement.outerHTML.slice(0, 80) + "\n"`)
	}
	if tabs > 10 {
		t.Errorf("the first field is %d tabs from the beginning:\n%s", tabs, been)
	}

	eval[bool](w, `document.querySelector("[data-testid=filter]").focus(), true`)
	press(kb.Tab, at(`.methods [aria-current=page]`))
	press(kb.ArrowUp, `document.activeElement === document.querySelector('.methods [aria-current=page]').parentElement.previousElementSibling.firstElementChild`)
	press(kb.End, `document.activeElement === [...document.querySelectorAll('.methods a')].at(-1)`)
	press(kb.ArrowDown, `document.activeElement === [...document.querySelectorAll('.methods a')].at(-1)`)
	press(kb.Home, `document.activeElement === document.querySelector('.methods a')`)
	press(kb.ArrowDown, `document.activeElement === document.querySelectorAll('.methods a')[1]`)
	press(kb.Enter, `location.hash === "#/call/blob/read" && document.querySelector('.ask h2').textContent === "Blob.Read"`)
	press(kb.Tab, `document.activeElement.closest(".ask")`)
	w.do(chromedp.KeyEvent(kb.Tab, chromedp.KeyModifiers(chromedp.ModifierShift)))
	w.wait(at(`.methods [aria-current=page]`)) // where it was

	for i := range 150 { // and a reply to each
		w.send(fmt.Sprint("m", i), "", "many", "query", "Memory.List", `{}`)
	}
	w.goTo("/messages?filter=corr:many+kind:query")
	w.wait(`document.querySelector('[data-testid=rows]')?.ariaRowCount === "150"`)
	eval[bool](w, `document.querySelector("[data-testid=filter]").focus(), true`)
	press(kb.Tab, `document.activeElement.textContent === "Following"`)
	press(kb.Tab, at(".rows a"))
	press(kb.Home, at(`[href^="#/messages/m0?"]`))
	for i := range 40 { // more than are in the page
		press(kb.ArrowDown, at(fmt.Sprintf(`[href^="#/messages/m%d?"]`, i+1)))
	}
	press(kb.End, at(`[href^="#/messages/m149?"]`))
	press(kb.ArrowUp, at(`[href^="#/messages/m148?"]`))
	press(kb.Enter, `document.querySelector('[data-testid=inspector] dd a')?.textContent === "m148"`)
	press(kb.Tab, `!document.activeElement.closest(".rows")`)

	w.goTo("/workflows")
	w.wait(`document.querySelector('.recent a')`)
	eval[bool](w, `document.querySelector('[data-testid=single]').focus(), true`)
	press(kb.Tab, at(`.recent a`))
	press(kb.Enter, `document.querySelector('.canvas .node')`)
	eval[bool](w, `document.querySelector('[data-testid=as-timeline]').focus(), true`)
	press(kb.Tab, at(`.node`))
	press(kb.Enter, `document.querySelectorAll('.node').length > 1`) // unfolds
	press(kb.End, `document.activeElement === [...document.querySelectorAll('.node')].at(-1)`)

	w.ask("Memory.Set", "command", `{"key":"notes/1","value":1}`)
	w.goTo("/memory")
	w.wait(`document.querySelector('[data-testid=folder]')`)
	eval[bool](w, `document.querySelector('[data-testid=new-key]').focus(), true`)
	press(kb.Tab, at(`[data-testid=folder]`))
	press(kb.Enter, `document.querySelector('[data-testid=key]')`)
	press(kb.ArrowDown, at(`[data-testid=key]`))
	press(kb.Enter, `location.hash === "#/memory/notes/1"`)
}
