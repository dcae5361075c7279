package console_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// A page of messages ends by its bytes, too: then a list asks for the next one until it is full.
func TestPagesOfLargeMessages(t *testing.T) {
	w := open(t)
	const messages = 50 // more than a page has of this size
	text := strings.Repeat("milk and honey. ", 900<<10/16)
	w.send("older", "", "shopping", "query", "Memory.Get", `{"key":"none"}`)
	for i := range messages {
		w.send(fmt.Sprint("set-", i), "", "", "command", "Memory.Set", fmt.Sprintf(`{"key":"large","value":%q}`, text))
	}
	first := w.ask("Message.List", "query", fmt.Sprintf(`{"filter":"type:Memory.Set kind:command","order":"desc","limit":%d}`, messages))
	if n := strings.Count(string(first), `"type":"Memory.Set"`); n >= messages {
		t.Fatalf("the first page has %d messages, and %d bytes", n, len(first))
	}
	w.do(chromedp.EmulateViewport(1440, 2000)) // in which all of them are in sight
	w.goTo("/messages?filter=type:Memory.Set+kind:command")
	w.wait(fmt.Sprintf(`document.querySelector('[data-testid=rows]')?.ariaRowCount === "%d"`, messages))
	w.goTo("/workflows") // where the one that has a name is on the next page
	w.wait(`document.querySelector('[data-testid=recent] a[href="#/workflows/shopping"]')`)
}

// Answers that don't fit into a line of the connection come as pointers to blobs: each view shows what they lead to.
func TestLargeAnswers(t *testing.T) {
	w := open(t)
	text := strings.Repeat("milk and honey ", 1000) // 80 of them are more than a line may have
	for i := range 80 {
		w.send(fmt.Sprint("set-", i), "", "shopping", "command", "Memory.Set", fmt.Sprintf(`{"key":"notes/%d","value":%q}`, i%2, text))
	}
	half := strings.Repeat("0123456789abcdef", 40_000)
	w.ask("Memory.Set", "command", fmt.Sprintf(`{"key":"large/a","value":%q}`, half))
	w.ask("Memory.Set", "command", fmt.Sprintf(`{"key":"large/b","value":%q}`, half))

	w.goTo("/messages?filter=type:Memory.Set")
	w.wait(`document.querySelectorAll('.message').length > 20`)
	w.wait(`document.querySelector('.message').parentElement.textContent.includes("milk and honey") || document.body.textContent.includes("milk and honey")`)
	w.goTo("/workflows")
	w.click(`[data-testid=recent] a[href="#/workflows/shopping"]`)
	w.wait(`Number(document.querySelector('[data-testid=workflows]')?.dataset.messages) >= 160`)
	w.goTo("/messages/set-79")
	w.wait(`document.querySelector('[data-testid=inspector]')?.textContent.includes("milk and honey")`)
	w.goTo("/memory/notes/1")
	w.wait(`document.body.textContent.includes("milk and honey")`)
	w.ask("Memory.Set", "command", `{"key":"after","value":"bread"}`) // a watch goes on behind what was large
	w.goTo("/messages?filter=bread")
	w.wait(`document.querySelectorAll('.message').length >= 1`)
	if eval[bool](w, `!!document.querySelector('[data-testid=problem]')`) {
		t.Error("a view has a problem")
	}
}
