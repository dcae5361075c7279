package console_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"kernos/kernel"
	"kernos/message"
	"kernos/schema"
)

// everyKind is a schema with all kinds of fields that the protocol's appendix B lists, and those
// that make forms hard.
const everyKind = `{
	"type": "object",
	"properties": {
		"title":  {"type": "string", "description": "Text input"},
		"key":    {"type": "string", "format": "uuid"},
		"when":   {"type": "string", "format": "date-time"},
		"count":  {"type": "integer", "minimum": 1},
		"ratio":  {"type": "number"},
		"urgent": {"type": "boolean"},
		"tags":   {"type": "array", "items": {"type": "string"}},
		"extra":  {"type": "object", "properties": {"deep": {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]}}},
		"labels": {"type": "object", "additionalProperties": {"type": "string"}},
		"note":   {"type": ["string", "null"]},
		"colour": {"enum": ["red", "green"]},
		"target": {"oneOf": [
			{"type": "object", "properties": {"by": {"const": "name"}, "name": {"type": "string"}}, "required": ["by", "name"]},
			{"type": "object", "properties": {"by": {"const": "number"}, "number": {"type": "integer"}}, "required": ["by", "number"]}]},
		"secret": {"type": "string", "writeOnly": true},
		"limit":  {"type": "integer", "default": 20},
		"any":    {},
		"tree":   {"$ref": "#/$defs/Node"}
	},
	"required": ["title"],
	"additionalProperties": false,
	"$defs": {"Node": {"type": "object", "properties": {"value": {"type": "integer"}, "next": {"$ref": "#/$defs/Node"}}}}
}`

// formModule is a module that repeats what it gets, with progress, and one whose answers are wrong.
func formModule() kernel.Module {
	return kernel.Module{Name: "form", Version: "1.0.0", Summary: "Forms.", Syscalls: []kernel.Syscall{
		{
			Definition: kernel.Definition{Type: "Form.Fill", Kind: message.KindQuery, Summary: "Repeat what is given.", Input: schema.Parsed([]byte(everyKind)), Output: schema.Any},
			Handler: func(_ context.Context, m message.Message, emit kernel.Emit) {
				emit(m.Reply(m.Data))
			},
		},
		{
			Definition: kernel.Definition{Type: "Form.Wrong", Kind: message.KindQuery, Summary: "Give an answer that doesn't fit.", Input: schema.Any, Output: schema.Parsed([]byte(`{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}`))},
			Handler: func(_ context.Context, m message.Message, emit kernel.Emit) {
				emit(m.Reply(json.RawMessage(`{"n":"one"}`)))
			},
		},
	}}
}

// run presses Run, and returns the answer.
func (w *world) run(state string) string {
	w.Helper()
	w.press()
	w.wait(fmt.Sprintf(`document.querySelector('[data-testid=answer]')?.dataset.status === %q`, state))
	return eval[string](w, `document.querySelector('[data-testid=answer]').innerText`)
}

// choose chooses an option of a select by its text.
func (w *world) choose(selector, text string) {
	w.Helper()
	eval[bool](w, fmt.Sprintf(`(() => {
		const field = document.querySelector(%q);
		field.value = [...field.options].find((option) => option.text === %q).value;
		field.dispatchEvent(new Event("change", {bubbles: true}));
		return true;
	})()`, selector, text))
}

// sent is the data of the last call, as the form has it.
func (w *world) sent() map[string]any {
	w.Helper()
	w.click(`[data-testid=json-tab]`)
	w.wait(`document.querySelector('[data-testid=json]')`)
	text := eval[string](w, `document.querySelector('[data-testid=json]').value`)
	var value map[string]any
	if err := json.Unmarshal([]byte(text), &value); err != nil {
		w.Fatal(err)
	}
	w.click(`[role=tablist] [role=tab]`)
	return value
}

func TestAFormForEveryKindOfSchema(t *testing.T) {
	w := open(t, formModule())
	w.goTo("/call/form/fill")
	field := func(path, inner string) string { return fmt.Sprintf(`[data-field=%q] %s`, path, inner) }

	// What is required is asked for before anything is sent.
	w.press()
	w.wait(`document.querySelector('[data-field="/title"] .problem')`)
	w.wait(`document.activeElement === document.querySelector('[data-field="/title"] textarea')`)

	w.fill(field("/title", "textarea"), "a title")
	w.click(field("/key", "button"))
	w.fill(field("/count", "input"), "3")
	w.fill(field("/ratio", "input"), "0.5")
	w.choose(field("/urgent", "select"), "false")
	w.choose(field("/colour", "select"), "green")
	w.click(field("/tags", "button"))
	w.click(field("/tags", "[data-testid=add]"))
	w.fill(field("/tags/0", "textarea"), "one")
	w.click(field("/extra", "button"))
	w.click(field("/extra/deep", "button"))
	w.fill(field("/extra/deep/x", "input"), "7")
	w.click(field("/labels", "button"))
	w.fill(field("/labels", "input"), "name")
	w.do(chromedp.KeyEvent("\r"))
	w.fill(field("/labels/name", "textarea"), "value")
	w.click(field("/note", ".null input"))
	w.click(field("/target", "button"))
	w.click(field("/target", "[role=radio]:nth-of-type(2)"))
	w.fill(field("/target/number", "input"), "5")
	w.fill(field("/secret", "input[type=password]"), "hush")
	w.fill(field("/any", "textarea"), `{"a":[1]}`)
	w.click(field("/tree", "button"))
	w.fill(field("/tree/value", "input"), "1")
	eval[bool](w, `(() => { const field = document.querySelector('[data-field="/when"] input'); field.value = "2026-01-31T12:00:00"; field.dispatchEvent(new Event("input", {bubbles: true})); return true; })()`)
	got := w.sent()
	if id, _ := got["key"].(string); len(id) != 36 {
		t.Errorf("the new id is %q", id)
	}
	if when, _ := got["when"].(string); !strings.HasPrefix(when, "2026-01-3") || !strings.HasSuffix(when, "Z") {
		t.Errorf("the time is %q", when)
	}
	delete(got, "key")
	delete(got, "when")
	text, _ := json.Marshal(got)
	const want = `{"any":{"a":[1]},"colour":"green","count":3,"extra":{"deep":{"x":7}},"labels":{"name":"value"},"note":null,"ratio":0.5,"secret":"hush","tags":["one"],"target":{"by":"number","number":5},"title":"a title","tree":{"value":1},"urgent":false}`
	if string(text) != want {
		t.Errorf("the form sends\n%s, want\n%s", text, want)
	}
	if answer := w.run("done"); !strings.Contains(answer, "a title") {
		t.Errorf("the answer is %q", answer)
	}
	if wide := eval[int](w, `document.querySelector('.ask').scrollWidth - document.querySelector('.ask').clientWidth`); wide > 0 {
		t.Errorf("beside the answer, the form is %d px wider than its pane", wide)
	}
	if address := eval[string](w, `location.href + JSON.stringify(localStorage)`); strings.Contains(address, "hush") {
		t.Error("a write-only value is in the address or in the browser's storage")
	}

	// Words are a text where any JSON may stand, and what isn't JSON yet is not sent.
	w.fill(field("/any", "textarea"), `two words`)
	if got := w.sent()["any"]; got != "two words" {
		t.Errorf("words are %v", got)
	}
	w.fill(field("/any", "textarea"), `{"a":`)
	w.click(`[data-testid=run]`)
	w.wait(`document.activeElement === document.querySelector('[data-field="/any"] textarea') && document.querySelector('[data-field="/any"] .problem')`)

	// JSON to form and back keeps what the schema doesn't know, and numbers that JavaScript can't hold.
	const given = `{"title":"","count":9007199254740993,"ratio":0.1000000000000000055511151231257827,"tags":[],"any":18446744073709551615,"unknown":{"kept":12345678901234567890}}`
	w.click(`[data-testid=json-tab]`)
	w.fill(`[data-testid=json]`, given)
	w.click(`[role=tablist] [role=tab]`)
	w.wait(`document.querySelector('[data-field="/count"] input')?.value === "9007199254740993"`)
	w.click(field("/tags", "[data-testid=add]"))
	w.wait(`document.querySelector('[data-field="/tags/0"]')`)
	w.click(field("/tags", `[aria-label="Remove tags 1"]`))
	w.wait(`!document.querySelector('[data-field="/tags/0"]')`)
	w.click(`[data-testid=json-tab]`)
	w.wait(`document.querySelector('[data-testid=json]')`)
	if text := eval[string](w, `document.querySelector('[data-testid=json]').value.replace(/\s/g, "")`); text != given {
		t.Errorf("Form and JSON have made\n%s of\n%s", text, given)
	}
	w.click(`[role=tablist] [role=tab]`)

	// What is there and empty is sent; what isn't set is not. An error of the server lands on its field.
	if answer := w.run("failed"); !strings.Contains(answer, "unknown field") {
		t.Errorf("the answer is %q", answer)
	}
	w.wait(`document.querySelector('[data-field="/unknown"] .problem') && document.querySelector('[data-field="/title"] textarea')?.value === "" && document.querySelector('[data-field="/limit"] .chip')`)
	w.click(`[data-testid=json-tab]`)
	w.fill(`[data-testid=json]`, `{"title":"t","count":0}`)
	w.click(`[role=tablist] [role=tab]`)
	w.wait(`document.querySelector('[data-field="/count"]')`)
	w.click(`[data-testid=run]`)
	w.wait(`document.querySelector('[data-field="/count"] .problem')`)
	w.fill(field("/count", "input"), "1")
	w.run("done")
	w.wait(`location.hash.includes("data=")`)

	// A reload keeps what was called, and what is pinned.
	const pinned = `[...document.querySelectorAll('.methods section')].some((s) => s.querySelector("h3").textContent === "Pinned" && s.querySelector("a").hash === "#/call/form/fill")`
	w.click(`[data-testid=pin]`)
	w.wait(pinned)
	w.do(chromedp.Reload())
	w.wait(`document.querySelector('[data-field="/title"] textarea')?.value === "t"`)
	w.wait(`document.querySelector('[data-testid=history]') && ` + pinned)
	w.click(`[data-testid=pin]`)
	w.wait(`!(` + pinned + `) && localStorage.getItem("kernos.pinned") === "[]"`)
}

func TestAnswers(t *testing.T) {
	module, canceled := formModule(), make(chan struct{})
	slow := kernel.DefineQuery[struct{}, string](kernel.Definition{Type: "Form.Slow", Summary: "Take long.", Emits: []kernel.EventDefinition{{Type: "Form.Found", Summary: "A text."}}, Behavior: kernel.Behavior{Runs: kernel.Slow}})
	module.Syscalls = append(module.Syscalls, slow.BindStream(func(ctx context.Context, _ struct{}, stream *kernel.Stream) (string, error) {
		stream.Progress("one", 0.25)
		stream.Progress("two", 0.5)
		if err := stream.Emit("Form.Found", "a text\nof two lines"); err != nil {
			return "", err
		}
		<-ctx.Done()
		close(canceled)
		return "", ctx.Err()
	}))
	around := kernel.DefineQuery[struct{}, struct{}](kernel.Definition{Type: "Around.Ask", Summary: "Ask another method.", Behavior: kernel.Behavior{Runs: kernel.Slow}})
	w := open(t, module, kernel.Module{Name: "around", Version: "1.0.0", Summary: "Calls within calls.", Syscalls: []kernel.Syscall{
		around.Bind(func(ctx context.Context, _ struct{}) (struct{}, error) {
			_, err := kernel.Invoke(ctx, "Form.Slow", json.RawMessage(`{}`))
			return struct{}{}, err
		}),
	}})

	// The filter shows the methods that have what was typed in their names.
	const methods = `[...document.querySelectorAll('.methods a')].map((a) => a.textContent).join(" ")`
	w.goTo("/call")
	w.fill(`[data-testid=filter]`, "Form.w")
	w.wait(methods + ` === "Form.Wrong"`)
	w.fill(`[data-testid=filter]`, "nothing of this name")
	w.wait(methods + ` === ""`)
	w.click(`.methods .empty button`)
	w.wait(methods + `.includes("Form.Wrong") && !document.querySelector('.methods .empty')`)

	// Without its schema a method is called with JSON.
	eval[bool](w, `(() => {
		window.send = WebSocket.prototype.send;
		WebSocket.prototype.send = function (text) { send.call(this, text.replace('"service_module_schema","params":["form"]', '"service_module_schema","params":["nothing"]')); };
		return true;
	})()`)
	w.goTo("/call/form/fill")
	w.wait(`document.querySelector('.ask .error')?.textContent.startsWith("The schema can't be had: ") && document.querySelector('[role=tab]').disabled`)
	w.fill(`[data-testid=json]`, `{"title":"raw"}`)
	w.run("done")
	w.wait(`document.querySelector('[data-testid=data] .json').textContent.includes('"title": "raw"')`)
	eval[bool](w, `WebSocket.prototype.send = send, true`)

	// What a call answers is shown while it runs: progress in one line, texts as texts, through which modules, and for how long.
	w.goTo("/call/around/ask")
	w.run("running")
	w.wait(`document.querySelectorAll('[data-testid=progress]').length === 1 && document.querySelector('[data-testid=progress]').textContent === "two · around > form" && document.querySelector('progress').value === 0.5`)
	w.wait(`document.querySelector('[data-testid=data] .mono').textContent === "Form.Found · around > form" && document.querySelector('[data-testid=data] pre').textContent === "a text\nof two lines"`)
	w.wait(`/Running, [1-9]\d* s/.test(document.querySelector('[data-testid=answer]').textContent)`)
	w.click(`[data-testid=answer] button`)
	<-canceled
	w.wait(`document.querySelector('[data-testid=answer]').dataset.status === "canceled"`)

	w.goTo("/call/form/wrong")
	w.run("done")
	w.wait(`document.querySelector('[data-testid=mismatch]')`)

	// What is too large for an answer can be shown, as far as it can be read, and downloaded.
	w.ask("Memory.Set", "command", `{"key":"large","value":"`+strings.Repeat("é", 150_000)+`"}`)
	w.goTo(`/call/memory/history?data=%7B%22key%22%3A%22large%22%7D`)
	w.press()
	w.click(`[data-testid=answer] [data-testid=blob] button`)
	w.wait(`/^"é{131071}$/.test(document.querySelector('[data-testid=blob] pre')?.textContent) && document.querySelector('[data-testid=blob] .quiet')`)
	eval[bool](w, `(() => { const make = URL.createObjectURL; URL.createObjectURL = (blob) => { window.downloaded = blob.size; return make(blob); }; return true; })()`)
	w.click(`[data-testid=blob] button + button`)
	w.wait(`window.downloaded`)
	if size := eval[int](w, `window.downloaded`); size != 300_002 {
		t.Errorf("the download has %d bytes", size)
	}

	// Guidance fills the form, and runs nothing.
	w.goTo(`/call/memory/sett?data=%7B%22key%22%3A%22a%22%2C%22value%22%3A1%7D`)
	w.run("failed")
	w.click(`[data-testid=mend]`)
	w.wait(`location.hash === "#/call/memory/set"`)
	w.wait(`document.querySelector('[data-field="/key"] textarea')?.value === "a"`)
	if out := w.outcome("Memory.Get", "query", `{"key":"a"}`); out.Kind != message.KindError {
		t.Error("a suggestion ran by itself")
	}

	// An error of the server lands on its field.
	w.goTo(`/call/message/list?data=%7B%22since%22%3A%22soon%22%7D`)
	w.run("failed")
	w.wait(`document.querySelector('[data-field="/since"] .problem')`)

	// A command that can't be taken back asks.
	w.ask("Memory.Set", "command", `{"key":"a","value":1}`)
	w.goTo(`/call/memory/delete?data=%7B%22key%22%3A%22a%22%7D`)
	w.wait(`document.querySelector('.kind.command')`)
	w.click(`[data-testid=run]`)
	w.do(chromedp.WaitVisible(chromedp.CSS(`[data-testid=confirm]`)))
	w.ask("Memory.Get", "query", `{"key":"a"}`)
	w.click(`[data-testid=confirmed]`)
	w.wait(`document.querySelector('[data-testid=answer]')?.dataset.status === "done"`)
}

// A confirmation is about the call that it shows: another one is asked about again.
func TestAConfirmationIsAboutOneCall(t *testing.T) {
	w := open(t)
	for key := range 3 {
		w.ask("Memory.Set", "command", fmt.Sprintf(`{"key":"k%d","value":1}`, key))
	}
	w.goTo(`/call/memory/delete?data=%7B%22key%22%3A%22k0%22%7D`)
	w.press()
	w.wait(`document.querySelector('[data-testid=confirm]')?.textContent.includes('{"key":"k0"}')`)
	w.fill(`[data-field="/key"] [data-testid=input]`, "k1")
	w.wait(`!document.querySelector('[data-testid=confirm]')`)
	w.press()
	w.wait(`document.querySelector('[data-testid=confirm]')?.textContent.includes('{"key":"k1"}')`)
	w.click(`[data-testid=json-tab]`)
	w.fill(`[data-testid=json]`, `{"key":"k2"}`)
	w.press()
	w.wait(`document.querySelector('[data-testid=confirm]')?.textContent.includes('{"key":"k2"}')`)
	w.press()
	w.wait(`document.querySelector('[data-testid=answer]')?.dataset.status === "done"`)
	if got := w.ask("Memory.List", "query", `{}`); string(got) != `{"keys":["k0","k1"]}` {
		t.Errorf("memory has %s", got)
	}
}

// A call can be run when it is known what the method takes, and whether it asks first. A method about which the
// kernel can't be asked is taken for a dangerous one.
func TestNothingRunsUnasked(t *testing.T) {
	w := open(t)
	w.ask("Memory.Set", "command", `{"key":"a","value":1}`)
	w.do(chromedp.Reload()) // nothing is known of any method
	w.wait(`document.querySelector('[data-testid=status]')?.dataset.status === "online"`)
	eval[bool](w, `(() => {
		const { send } = WebSocket.prototype;
		WebSocket.prototype.send = async function(text) {
			if (text.includes("rpc.discover")) {
				await new Promise((known) => { window.known = known; });
				if (failing) text = text.replace("rpc.discover", "rpc.nothing");
			}
			send.call(this, text);
		};
		return true;
	})()`)
	for _, failing := range []bool{true, false} {
		eval[bool](w, fmt.Sprintf(`window.failing = %t, window.known = undefined, true`, failing))
		w.goTo("/call")
		w.goTo(`/call/memory/delete?data=%7B%22key%22%3A%22a%22%7D`)
		w.wait(`document.querySelector('[data-field="/key"]') && window.known`) // the schema is there
		w.do(chromedp.Click(chromedp.CSS(`[data-testid=run]`)), chromedp.KeyEvent("\r"))
		if eval[bool](w, `!!document.querySelector('[data-testid=answer], [data-testid=confirm]')`) {
			t.Error("a method of which too little is known is run")
		}
		eval[bool](w, `known(), true`)
		w.press()
		w.wait(`document.querySelector('[data-testid=confirm]')`)
		w.ask("Memory.Get", "query", `{"key":"a"}`)
	}
}

// A field that is wrong has a red border, also while it has the focus, which is seen around the border.
func TestAWrongFieldHasTheFocus(t *testing.T) {
	w := open(t)
	for _, theme := range []string{"light", "dark"} {
		w.theme(theme)
		w.goTo("/call")
		w.goTo("/call/memory/get")
		w.press()
		w.wait(`document.activeElement.matches('[data-field="/key"] [aria-invalid=true]:focus-visible')`)
		w.wait(`(() => {
			const style = getComputedStyle(document.activeElement), red = document.querySelector(".problem");
			return style.borderTopColor === getComputedStyle(red).color && style.outlineColor !== style.borderTopColor && style.outlineStyle === "solid" && parseFloat(style.outlineOffset) >= 0;
		})()`)
	}
}
