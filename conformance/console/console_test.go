package console_test

import (
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
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
	w.wait(`document.querySelector('[data-testid=palette] li[aria-selected=true]')?.textContent.startsWith("memory.get")`)
	w.do(chromedp.KeyEvent("\r"))
	w.wait(`location.hash === "#/call/memory/get"`)
	w.wait(`!document.querySelector('[data-testid=palette]').open`)
	eval[bool](w, `(() => { document.activeElement.blur(); return true; })()`)
	w.do(chromedp.KeyEvent("?"))
	w.do(chromedp.WaitVisible(chromedp.CSS(`[data-testid=sheet]`)))
}
