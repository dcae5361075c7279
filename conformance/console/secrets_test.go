package console_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"kernos/kernel"
	"kernos/message"
	"kernos/schema"
)

// secretFields is a schema with secrets at all depths that a form shows.
const secretFields = `{
	"type": "object",
	"properties": {
		"user":     {"type": "string"},
		"password": {"type": "string", "format": "password"},
		"pin":      {"type": "integer", "writeOnly": true},
		"any":      {"writeOnly": true},
		"by":       {"oneOf": [
			{"type": "object", "properties": {"code": {"type": "string", "format": "password"}}, "required": ["code"]},
			{"type": "object", "properties": {"card": {"type": "string"}}, "required": ["card"]}]},
		"answers":  {"type": "object", "additionalProperties": {"type": "string", "writeOnly": true}},
		"pair":     {"type": "array", "prefixItems": [{"type": "string"}, {"type": "string", "format": "password"}]},
		"env":      {"type": "object", "additionalProperties": {"type": "string"}, "writeOnly": true}
	}
}`

func loginModule() kernel.Module {
	return kernel.Module{Name: "login", Version: "1.0.0", Summary: "Secrets.", Syscalls: []kernel.Syscall{{
		Definition: kernel.Definition{Type: "Login.Try", Kind: message.KindQuery, Summary: "Take secrets.", Input: schema.Parsed([]byte(secretFields)), Output: schema.Any},
		Handler:    func(_ context.Context, m message.Message, emit kernel.Emit) { emit(m.Reply([]byte(`"tried"`))) },
	}}}
}

// callWith calls a method with data that is typed as JSON.
func (w *world) callWith(method, data string) {
	w.Helper()
	w.goTo("/call")
	w.wait(`!document.querySelector('[data-testid=run]')`)
	w.goTo("/call/" + method)
	w.wait(`document.querySelector('.ask .form, .ask .error')`)
	w.click(`[data-testid=json-tab]`)
	w.fill(`[data-testid=json]`, data)
	w.click(`[data-testid=run]`)
	w.wait(`["done", "failed"].includes(document.querySelector('[data-testid=answer]')?.dataset.status) || document.querySelector('[data-testid=confirmed]')?.click()`)
}

// The console keeps of a call, and puts into the address, what the kernel records of it: no secrets, whether a schema
// marks them or their names say what they are. A call without secrets can be repeated.
func TestSecretsOfCallsAreNotKept(t *testing.T) {
	w := open(t, loginModule())
	eval[bool](w, `(() => {
		window.written = [];
		const { replaceState, pushState } = history, { setItem } = Storage.prototype;
		history.replaceState = function (...given) { written.push(decodeURIComponent(given[2])); return replaceState.apply(this, given); };
		history.pushState = function (...given) { written.push(decodeURIComponent(given[2])); return pushState.apply(this, given); };
		Storage.prototype.setItem = function (...given) { written.push(given[1]); return setItem.apply(this, given); };
		addEventListener("hashchange", () => written.push(decodeURIComponent(location.hash)));
		return true;
	})()`)
	const secret = "1122334455"
	for _, call := range []struct{ method, data string }{
		{"login/try", `{"password":"` + secret + `"}`},
		{"login/try", `{"pin":` + secret + `}`},
		{"login/try", `{"by":{"code":"` + secret + `"}}`},
		{"login/try", `{"answers":{"first":"` + secret + `"}}`},
		{"login/try", `{"pair":["a","` + secret + `"]}`},
		{"login/try", `{"env":{"A":"` + secret + `"}}`},
		{"login/tri", `{"pin":"` + secret + `"}`},
		{"http/fetch", `{"url":"http://127.0.0.1:1/","headers":{"Authorization":"Bearer ` + secret + `"}}`},
		{"http/fetch", `{"url":"http://127.0.0.1:1/?api_key=` + secret + `"}`},
		{"http/fetch", `{"url":"http://user:` + secret + `@127.0.0.1:1/"}`},
		{"http/fetch", `{"url":"http://127.0.0.1:1/","method":"POST","body":"{\"password\":\"` + secret + `\"}"}`},
	} {
		w.callWith(call.method, call.data)
		if call.method == "login/tri" { // the method that was meant gets what was typed
			w.click(`[data-testid=mend]`)
			w.wait(`location.hash.startsWith("#/call/login/try") && document.querySelector('.ask .form')`)
			if pin := w.sent()["pin"]; pin != secret {
				t.Errorf("the suggested method gets %v", pin)
			}
		}
	}
	w.callWith("http/fetch", `{"url":"http://127.0.0.1:1/harmless"}`)
	w.wait(`decodeURIComponent(location.hash) === '#/call/http/fetch?data={"url":"http://127.0.0.1:1/harmless"}'`)
	w.callWith("login/try", `{"user":"harmless"}`)
	w.wait(`decodeURIComponent(location.hash) === '#/call/login/try?data={"user":"harmless"}'`)
	w.wait(`localStorage.getItem("kernos.recent").includes('{"user":"harmless"}') && localStorage.getItem("kernos.recent").includes('/harmless"}')`)
	for _, text := range eval[[]string](w, fmt.Sprintf(`written.concat(location.href, JSON.stringify(localStorage), JSON.stringify(sessionStorage)).filter((text) => text.includes(%q))`, secret)) {
		t.Errorf("the browser keeps %s", text)
	}

	// What is typed next isn't in the address; going elsewhere and back loses nothing of it.
	w.click(`[role=tablist] [role=tab]`)
	w.fill(`[data-field="/password"] input`, secret)
	w.wait(`location.hash === "#/call/login/try"`)
	w.goTo("/messages")
	w.wait(`document.querySelector('[data-view=messages]')`)
	eval[bool](w, `history.back(), true`)
	w.wait(fmt.Sprintf(`document.querySelector('[data-field="/password"] input')?.value === %q && document.querySelector('[data-field="/user"] textarea')?.value === "harmless"`, secret))

	// An earlier call fills the form that is open.
	w.click(`[data-testid=history] a[href*=harmless]`)
	w.wait(`document.querySelector('[data-field="/password"] input')?.value === "" && document.querySelector('[data-field="/user"] textarea')?.value === "harmless"`)
}

// What a schema marks as a secret is typed unseen, and is not copied.
func TestSecretsAreTypedUnseen(t *testing.T) {
	w := open(t, loginModule())
	w.goTo("/call")
	w.wait(`!document.querySelector('[data-testid=run]')`)
	w.goTo("/call/login/try?data=" + eval[string](w, `encodeURIComponent('{"user":"a","password":"hush","pin":4711,"any":"hush","by":{"code":"hush"},"answers":{"b":"hush"},"pair":["c","hush"],"env":{"d":"hush"}}')`))
	w.wait(`document.querySelector('.ask .form')`)
	for path, hidden := range map[string]bool{
		"/user": false, "/password": true, "/pin": true, "/any": true, "/by/code": true, "/answers/b": true, "/pair/0": false, "/pair/1": true, "/env/d": true,
	} {
		if got := eval[bool](w, fmt.Sprintf(`document.querySelector('[data-field=%q] [data-testid=input]').type === "password"`, path)); got != hidden {
			t.Errorf("%s is typed unseen: %v, want %v", path, got, hidden)
		}
	}
	w.fill(`[data-field="/pin"] input`, "12")
	w.fill(`[data-field="/any"] input`, "two words")
	if got := w.sent(); got["pin"] != 12.0 || got["any"] != "two words" {
		t.Errorf("the form sends %v", got)
	}
	eval[bool](w, `navigator.clipboard.writeText = async (text) => { window.copied = text; }, true`)
	w.choose(`[data-testid=copy]`, "JSON-RPC")
	w.wait(`window.copied`)
	if text := eval[string](w, `window.copied`); strings.Contains(text, "hush") || strings.Contains(text, "12") || !strings.Contains(text, `"pair":["c"`) {
		t.Errorf("the copy is %s", text)
	}
}
