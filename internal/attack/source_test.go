package attack

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"kernos/message"
)

// TestCodeIsShownToItsAuthorAndTheOwner: an error of code shows where it is in the code, and the line, to those who may
// see the code. Others get what the code has thrown, on whatever way they call it.
func TestCodeIsShownToItsAuthorAndTheOwner(t *testing.T) {
	w := open(t)
	const key = "KEY-IN-THE-SOURCE"
	register := func(secret, name, code string) {
		t.Helper()
		data, err := json.Marshal(map[string]any{"name": name, "kind": "query", "description": "Try.", "inputSchema": map[string]any{}, "outputSchema": map[string]any{}, "code": code, "limits": map[string]any{"time": 100}})
		if err != nil {
			t.Fatal(err)
		}
		o := w.owner
		if secret != "" {
			o = func(what message.Type, data string) outcome { return w.call(secret, what, data) }
		}
		if o := o("Syscall.Register", string(data)); o.code != 0 {
			t.Fatalf("%s: %v", name, o)
		}
	}
	author, nested := w.token("author", `"preset":"agent"`), w.token("nested", `"preset":"agent"`)
	caller := w.token("caller", `"allow":["Exp.*","Nested.*","Syscall.Call","Syscall.Test","Job.*","Message.*"]`)
	faults := map[string]string{
		"Throws": `export const handler = () => { const o: any = undefined; return o.missing("` + key + `") }`,
		"Waits":  `export const handler = () => new Promise(() => "` + key + `")`,
		"Loops":  `export const handler = () => { for (;;) { "` + key + `".length } }`,
		"Means":  `export const handler = () => { throw new Error("no such city", { cause: "no such street" }) /* ` + key + ` */ }`,
	}
	for name, code := range faults {
		register("", "Exp."+name, code)
		register(author, "Own."+name, code)
		register(nested, "Nested."+name, `export const handler = () => kernos.call("Exp.`+name+`", {})`)
	}
	for name := range faults {
		for _, c := range []struct {
			what message.Type
			data string
		}{
			{message.Type("Exp." + name), `{}`},
			{"Syscall.Call", fmt.Sprintf(`{"type":"Exp.%s","data":{}}`, name)},
			{"Syscall.Test", fmt.Sprintf(`{"code":"export const handler = () => kernos.call('Exp.%s', {})"}`, name)},
			{message.Type("Nested." + name), `{}`},
		} {
			if o := w.call(caller, c.what, c.data); strings.Contains(o.String(), key) || strings.Contains(o.String(), "Exp."+name+":1") || strings.Contains(o.String(), "line 1") {
				t.Errorf("%s %s: %v", c.what, c.data, o)
			}
		}
		var job struct{ JobID string }
		w.callsInto(caller, "Job.Start", fmt.Sprintf(`{"name":"Exp.%s","payload":{}}`, name), &job)
		w.call(caller, "Job.Wait", fmt.Sprintf(`{"jobId":%q}`, job.JobID))
		for _, what := range []message.Type{"Job.Status", "Job.Logs"} {
			if o := w.call(caller, what, fmt.Sprintf(`{"jobId":%q}`, job.JobID)); strings.Contains(o.String(), key) {
				t.Errorf("%s of Exp.%s: %v", what, name, o)
			}
		}
	}
	if o := w.call(caller, "Message.List", `{"limit":1000}`); o.code != 0 || strings.Contains(string(o.data), key) {
		t.Errorf("the history of the caller: %v", o)
	}
	if o := w.call(caller, "Exp.Means", `{}`); !strings.Contains(o.text, "no such city") {
		t.Errorf("what the code throws is kept from its caller: %v", o)
	}
	for what, o := range map[string]outcome{"the owner": w.owner("Exp.Throws", `{}`), "its author": w.call(author, "Own.Throws", `{}`), "the owner of all": w.owner("Own.Throws", `{}`)} {
		if !strings.Contains(o.text, key) || !strings.Contains(o.text, ":1:") {
			t.Errorf("%s isn't shown the line: %v", what, o)
		}
	}
}
