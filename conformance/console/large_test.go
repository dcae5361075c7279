package console_test

import (
	"fmt"
	"strings"
	"testing"
)

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
