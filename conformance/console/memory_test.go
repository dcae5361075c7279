package console_test

import (
	"strings"
	"testing"
)

// A value as vault keys have it; no passphrase opens it.
const sealedValue = "pwenc:v1:eyJ2IjoxLCJraWQiOiJrIiwiYWxnIjoiQTI1NkdDTSIsIm5vbmNlIjoiQUFBQUFBQUFBQUFBQUFBQSIsImN0IjoiQUFBQUFBQUFBQUFBQUFBQUFBQUFBQSJ9"

func TestMemory(t *testing.T) {
	w := open(t)
	w.goTo("/memory")
	w.wait(`document.querySelector('.tree .empty')`)

	// A new key.
	w.click(`[data-testid=new-key]`)
	w.fill(`[data-testid=name]`, "notes/shopping")
	w.fill(`[data-testid=value]`, `milk`)
	w.click(`[data-testid=review]`)
	w.wait(`document.querySelector('[data-testid=diff]')?.textContent.includes("+ milk")`)
	w.click(`[data-testid=save]`)
	w.wait(`document.querySelector('[data-testid=entry]')?.dataset.revision === "1"`)
	w.wait(`document.querySelector('[data-testid=key][aria-current=page]')?.textContent === "shopping"`) // its folder is open
	w.wait(`document.querySelector('[data-testid=shown]').textContent === "milk"`)

	// An edit, with its difference and an expiry.
	w.click(`[data-testid=edit]`)
	w.click(`[data-testid=as-json]`)
	w.fill(`[data-testid=value]`, `{"milk":`)
	w.click(`[data-testid=review]`)
	w.wait(`document.querySelector('[data-testid=problem]')?.textContent.includes("not JSON")`)
	w.fill(`[data-testid=value]`, `{"milk":2}`)
	w.fill(`[data-testid=ttl]`, `1h`)
	w.click(`[data-testid=review]`)
	w.wait(`document.querySelector('[data-testid=diff]')?.textContent.includes('- "milk"')`)
	if got := w.ask("Memory.Get", "query", `{"key":"notes/shopping"}`); string(got) != `"milk"` {
		t.Errorf("it was written before it was confirmed: %s", got)
	}
	w.click(`[data-testid=save]`)
	w.wait(`document.querySelector('[data-testid=entry]')?.dataset.revision === "2" && document.querySelector('[data-testid=expires]')`)

	// A conflict: both are shown, and neither is lost unseen.
	w.click(`[data-testid=edit]`)
	w.wait(`/^[1-3]\d\d\ds$/.test(document.querySelector('[data-testid=ttl]')?.value)`) // saving keeps the expiry
	w.fill(`[data-testid=value]`, `{"milk":3}`)
	w.ask("Memory.Set", "command", `{"key":"notes/shopping","value":{"honey":1}}`)
	w.click(`[data-testid=review]`)
	w.click(`[data-testid=save]`)
	w.wait(`document.querySelector('[data-testid=conflict]')?.textContent.includes("revision 3")`)
	w.wait(`/honey/.test(document.querySelector('[data-testid=diff]').textContent) && /"milk":3/.test(document.querySelector('[data-testid=diff]').textContent)`)
	if got := w.ask("Memory.Get", "query", `{"key":"notes/shopping"}`); string(got) != `{"honey":1}` {
		t.Errorf("the other change is lost: %s", got)
	}
	w.click(`[data-testid=save]`)
	w.wait(`document.querySelector('[data-testid=entry]')?.dataset.revision === "4"`)

	// The first version comes back, after its difference was seen.
	w.wait(`document.querySelectorAll('[data-testid=version]').length === 4`)
	w.click(`[data-testid=version]:last-child [data-testid=restore]`)
	w.wait(`document.querySelector('[data-testid=diff]')?.textContent.includes("+ milk")`)
	w.click(`[data-testid=save]`)
	w.wait(`document.querySelector('[data-testid=entry]')?.dataset.revision === "5"`)
	if got := w.ask("Memory.Get", "query", `{"key":"notes/shopping"}`); string(got) != `"milk"` {
		t.Errorf("restored: %s", got)
	}

	// Deleting asks, and can be undone.
	w.click(`[data-testid=delete]`)
	w.wait(`document.querySelector('[data-testid=confirm]')`)
	w.ask("Memory.Get", "query", `{"key":"notes/shopping"}`)
	w.click(`[data-testid=confirmed]`)
	w.wait(`document.querySelector('[data-testid=entry] .empty') && document.querySelector('.tree .empty')`)
	w.wait(`document.querySelectorAll('[data-testid=version]').length === 6`) // the deletion is one of them
	w.click(`[data-testid=version]:nth-child(2) [data-testid=restore]`)
	w.click(`[data-testid=save]`)
	w.wait(`document.querySelector('[data-testid=shown]')?.textContent === "milk"`)
}

func TestMemoryTree(t *testing.T) {
	w := open(t)
	for _, key := range []string{"a/b/c", "a/b", "z"} {
		w.ask("Memory.Set", "command", `{"key":"`+key+`","value":1}`)
	}
	w.ask("Memory.Set", "command", `{"key":"vault/token","value":"`+sealedValue+`"}`)
	w.goTo("/memory/a/b/c") // its folders open by themselves
	const names = `[...document.querySelectorAll('[data-testid=key], [data-testid=folder]')].map((e) => e.textContent.trim()).join(" ")`
	w.wait(names + ` === "a/ b b/ c vault/ z"`)
	w.ask("Memory.Set", "command", `{"key":"z","value":[3,"x",{"y":[0]}]}`)
	w.goTo("/memory/z")
	w.wait(`document.querySelector('[data-testid=shown]') && JSON.stringify(JSON.parse(document.querySelector('[data-testid=shown]').textContent)) === '[3,"x",{"y":[0]}]'`)
	// Numbers that JavaScript can't hold are saved as they were; what is sealed within a value is told so.
	const exact = `{"big":9007199254740993,"fine":0.12345678901234567891,"huge":1e400,"old":1,"secret":"` + sealedValue + `"}`
	w.ask("Memory.Set", "command", `{"key":"exact","value":`+exact+`}`)
	w.goTo("/memory/exact")
	w.wait(`/"big": 9007199254740993,\s+"fine": 0.12345678901234567891,\s+"huge": 1e400/.test(document.querySelector('[data-testid=shown]')?.textContent)`)
	w.wait(`document.querySelector('[data-testid=shown] [data-testid=sealed]') && !document.querySelector('[data-testid=shown]').textContent.includes("pwenc")`)
	w.click(`[data-testid=edit]`)
	w.wait(`document.querySelector('[data-testid=value]')`)
	eval[bool](w, `(() => { const field = document.querySelector('[data-testid=value]'); field.value = field.value.replace('"old": 1', '"new": 18446744073709551615'); field.dispatchEvent(new Event("input", {bubbles: true})); return true; })()`)
	w.click(`[data-testid=review]`)
	w.click(`[data-testid=save]`)
	w.wait(`document.querySelector('[data-testid=entry]')?.dataset.revision === "2"`)
	if got := w.ask("Memory.Get", "query", `{"key":"exact"}`); string(got) != strings.Replace(exact, `"old":1`, `"new":18446744073709551615`, 1) {
		t.Errorf("the editor has saved %s", got)
	}
	w.goTo("/memory/vault/token")
	w.wait(`document.querySelector('[data-testid=sealed]') && !document.querySelector('[data-testid=edit]')`)
	if text := eval[string](w, `document.body.textContent`); strings.Contains(text, sealedValue) {
		t.Error("the sealed text is in the page")
	}
	w.goTo("/memory/nope")
	w.wait(`document.querySelector('[data-testid=entry] .empty a')`)
}
