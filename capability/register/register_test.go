package register_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"kernos/capability/register"
	"kernos/kernel"
	"kernos/kernel/kerneltest"
	"kernos/kernel/principal"
	"kernos/message"
	"kernos/schema"
	"kernos/store/storetest"
)

func TestAProgramServesASyscall(t *testing.T) {
	k := withModule(t, nil, nil)
	caller, program := connect(t, k), connect(t, k)
	before := k.Registry().All().Hash()
	program.send(line("command", "Syscall.Register", "r",
		`{"name":"Text.Count","kind":"query","description":"Count words.","inputSchema":{"type":"object","properties":{"text":{"type":"string"}},"required":["text"],"additionalProperties":false},"outputSchema":{"type":"object","properties":{"words":{"type":"integer"}},"required":["words"]},"handler":"connection","emits":[{"type":"Text.Counted","description":"So far."}],"timeout":5000}`))
	if got := brief(t, program.next()); got != `reply {"registered":true,"name":"Text.Count"}` {
		t.Fatal(got)
	}
	during := k.Registry().All().Hash()
	if during == before {
		t.Error("the hash is that of before")
	}
	if got := types(t, caller); !strings.Contains(got, "Text.Count") {
		t.Errorf("listed are %s", got)
	}
	if got := caller.call(line("query", "Syscall.Describe", "d", `{"name":"Text.Count"}`)); got != `reply {"name":"Text.Count","kind":"query","input":{"type":"object","properties":{"text":{"type":"string"}},"required":["text"],"additionalProperties":false},"output":{"anyOf":[{"type":"object","properties":{"words":{"type":"integer"}},"required":["words"]},`+
		`{"type":"object","description":"In place of a large reply: Blob.Read {ref: dataRef} reads it, in parts.","properties":{"dataRef":{"type":"object","description":"A BlobPointer."},"size":{"type":"integer","description":"In bytes."},"mediaType":{"type":"string","description":"application/json"}},"required":["dataRef","size","mediaType"],"additionalProperties":false}]},`+
		`"summary":"Count words.","emits":[{"type":"Text.Counted","description":"So far."}],`+
		`"errors":[{"code":502,"when":"the program that serves it has left, or its reply breaks the output schema"}],"example":{"text":"text"},"timeout":5000}` {
		t.Error(got)
	}

	// The request, with its lineage; events and the reply, with theirs.
	caller.send(line("query", "Text.Count", "q1", `{"text":"one two"}`))
	request := program.next()
	if brief(t, request) != `query Text.Count {"text":"one two"}` || request.Metadata.Causation != "q1" || request.Metadata.Correlation != "q1" || request.Metadata.ID == "q1" {
		t.Errorf("the program got %s", message.Append(nil, &request))
	}
	program.send(answering(request, "event", "Text.Counted", `1`), answering(request, "event", "Syscall.Progressed", `{"message":"half","percentage":0.5}`),
		answering(request, "event", "Text.Other", `2`), answering(request, "reply", "Text.Count", `{"words":2}`))
	for _, want := range []string{`event Text.Counted 1`, `event Syscall.Progressed {"message":"half","percentage":0.5}`, `event Text.Other 2`, `reply {"words":2}`} {
		m := caller.next()
		if got := brief(t, m); got != want || m.Metadata.Causation != "q1" || strings.HasPrefix(string(m.Metadata.ID), "a-") {
			t.Errorf("got %s", message.Append(nil, &m))
		}
	}

	// What is not valid does not reach it; what it answers is checked, too.
	if got := caller.call(line("query", "Text.Count", "q2", `{"txt":"one"}`)); got != `error 422 Schema validation failed: missing required field: text; unknown field: txt (did you mean text?)` {
		t.Error(got)
	}
	for answer, want := range map[string]string{
		`reply {"words":"two"}`:                  `error 502 The program that serves Text.Count sent a reply that its outputSchema does not allow: words: expected a whole number, got "two"`,
		`reply {}`:                               `error 502 The program that serves Text.Count sent a reply that its outputSchema does not allow: missing required field: words`,
		`error {"code":418,"message":"A\u0007"}`: `error 418 A `,
		`error {"code":404,"message":"No","cause":{"code":500,"message":"why"}}`: `error 404 No: why`,
		`event-Kernel.Stopped 1`: `error 502 The program that serves Text.Count sent the event Kernel.Stopped, whose name is reserved`,
	} {
		caller.send(line("query", "Text.Count", "q3", `{"text":"one two"}`))
		kind, data, _ := strings.Cut(answer, " ")
		kind, typ, special := strings.Cut(kind, "-")
		if !special {
			typ = "Text.Count"
		}
		request := program.next()
		program.send(answering(request, kind, typ, data))
		if got := brief(t, caller.next()); got != want {
			t.Errorf("%s: %s", answer, got)
		}
		if special {
			if got := brief(t, program.next()); got != fmt.Sprintf(`event Syscall.Cancelled {"id":%q}`, request.Metadata.ID) {
				t.Errorf("the program was told %s", got)
			}
		}
	}

	// Its types leave with it.
	caller.send(line("query", "Text.Count", "q4", `{"text":"x"}`))
	program.next()
	program.close()
	if got := brief(t, caller.next()); got != "error 502 The program that serves Text.Count went away before it answered; try again when it is back" {
		t.Error(got)
	}
	if got := caller.call(line("query", "Text.Count", "q5", `{"text":"x"}`)); !strings.HasPrefix(got, "error 404 No handler for Text.Count") {
		t.Error(got)
	}
	if k.Registry().All().Hash() != before {
		t.Error("the hash did not change back")
	}
}

func TestWhatCanNotBeRegistered(t *testing.T) {
	changed := kernel.Syscall{Definition: kernel.Definition{
		Type:         "Test.Change",
		Kind:         message.KindCommand,
		Summary:      "Change.",
		Input:        schema.Any,
		Output:       schema.Any,
		Emits:        []kernel.EventDefinition{{Type: "Test.Changed", Summary: "It changed."}},
		Presentation: kernel.Presentation{Aliases: []message.Type{"Test.Alter"}},
	}, Handler: kerneltest.Echo("Test.Change").Handler}
	k := withModule(t, nil, nil, changed)
	p := connect(t, k)
	hash := k.Registry().All().Hash()
	full := func(change ...string) string {
		members := map[string]string{"name": `"Text.Count"`, "kind": `"query"`, "description": `"Count."`, "inputSchema": `{}`, "outputSchema": `{}`, "handler": `"connection"`}
		for i := 0; i < len(change); i += 2 {
			members[change[i]] = change[i+1]
		}
		var all []string
		for _, name := range []string{"name", "kind", "description", "inputSchema", "outputSchema", "handler", "emits", "timeout", "code"} {
			if v := members[name]; v != "" {
				all = append(all, fmt.Sprintf("%q:%s", name, v))
			}
		}
		return "{" + strings.Join(all, ",") + "}"
	}
	for _, c := range []struct{ data, want string }{
		{full("name", `"text.count"`), `422 Schema validation failed: name: expected Domain.Action in PascalCase, at most 128 bytes, got "text.count" (did you mean Text.Count?)`},
		{full("name", `"Count"`), `422 Schema validation failed: name: expected Domain.Action in PascalCase, at most 128 bytes, got "Count"`},
		{full("name", `"A.B.C"`), `422 Schema validation failed: name: expected Domain.Action in PascalCase, at most 128 bytes, got "A.B.C" (did you mean A.BC?)`},
		{full("name", `"Syscall.Count"`), `403 name: Syscall.Count is reserved, as all of Syscall.* is; choose another domain`},
		{full("name", `"SYS.Count"`), `403 name: SYS.Count is reserved, as all of SYS.* is; choose another domain`},
		{full("name", `"Kernel.Count"`), `403 name: Kernel.Count is reserved, as all of Kernel.* is; choose another domain`},
		{full("name", `"Ping"`), `403 name: Ping is built in and can't be replaced; choose another name`},
		{full("name", `"Test.Change"`), `403 Test.Change is built in and can't be replaced; choose another name`},
		{full("name", `"Test.Alter"`), `403 Test.Alter is another name for Test.Change, which is built in and can't be replaced; choose another name`},
		{full("name", `"TEST.Change"`), `409 TEST.Change differs from Test.Change in upper and lower case only, and some callers can't tell; choose another name`},
		{full("kind", `"event"`), `422 Schema validation failed: kind: expected one of "command", "query", got "event"`},
		{full("handler", `"wasm"`), `422 Schema validation failed: handler: expected "connection", got "wasm"`},
		{full("handler", "", "description", "", "code", `"export const handler = 1"`), `501 This kernel runs no code: leave code out, register Text.Count with "handler":"connection", and answer its requests on this connection`},
		{full("inputSchema", ""), `422 Schema validation failed: missing required field: inputSchema`},
		{full("inputSchema", `{"properties":{"a":{"minimum":"x"}}}`), `422 Schema validation failed: inputSchema is not a JSON Schema: at /properties/a/minimum: got string, want number`},
		{full("outputSchema", `5`), `422 Schema validation failed: outputSchema is not a JSON Schema: at /: got number, want boolean or object`},
		{full("outputSchema", `{"$ref":"#/x"}`), `422 Schema validation failed: outputSchema is not a JSON Schema: json-pointer in "#/x" not found`},
		{full("emits", `[{"type":"Kernel.Counted"}]`), `403 emits[0].type: Kernel.Counted is reserved, as all of Kernel.* is; choose another domain`},
		{full("emits", `[{"type":"Text.Counted"},{"type":"Text.Counted"}]`), `422 Schema validation failed: emits[1].type: Text.Counted is named twice`},
		{full("emits", `[{"type":"Test.Changed"}]`), `403 Test.Changed is an event of Test.Change, which is built in; choose another name for yours`},
		{full("timeout", `0`), `422 Schema validation failed: timeout: expected a number of at least 1, got the number 0`},
	} {
		if got := p.call(line("command", "Syscall.Register", "r", c.data)); got != "error "+c.want {
			t.Errorf("%s\ngot  %s\nwant %s", c.data, got, c.want)
		}
	}
	keyed := strings.Replace(line("command", "Syscall.Register", "r", full()), `"timestamp"`, `"idempotencyKey":"k","timestamp"`, 1)
	if got := p.call(keyed); !strings.HasPrefix(got, "error 503 ") && !strings.HasPrefix(got, "error 422 Schema validation failed: a registration ends with its connection") {
		t.Errorf("with a key: %s", got)
	}
	var answer message.Message
	k.Handle(t.Context(), message.Message{Kind: message.KindCommand, Type: "Syscall.Register", Data: json.RawMessage(full()), Metadata: message.Metadata{ID: "r", Timestamp: 1}}, func(m message.Message) { answer = m })
	if got := brief(t, answer); got != "error 422 Text.Count can't be served: requests are sent over the connection that registers, and this call came over none that carries them; register over the unix socket, with kernos pipe or kernos handle, or over POST /v1/messages" {
		t.Error(got)
	}
	if k.Registry().All().Hash() != hash {
		t.Error("something was registered")
	}
}

func TestASchemaMayNotBeTooLarge(t *testing.T) {
	data := `{"name":"Text.Count","kind":"query","description":"Count.","handler":"connection","outputSchema":{},"inputSchema":{"description":"` + strings.Repeat("x", message.MaxLine) + `"}}`
	code, text := kerneltest.Failure(t, withModule(t, nil, nil), kerneltest.Command("r", "Syscall.Register", data))
	if code != 422 || text != "Schema validation failed: inputSchema: expected at most 16384 bytes, got 16402" {
		t.Errorf("got %d %s", code, text)
	}
}

func TestConnectionsAgreeOnAType(t *testing.T) {
	k := withModule(t, nil, nil)
	one, two := connect(t, k), connect(t, k)
	register := func(p *program, data string) string {
		t.Helper()
		return p.call(line("command", "Syscall.Register", "r", data))
	}
	const first = `{"name":"Text.Count","kind":"query","description":"Count.","inputSchema":{"type":"object","maxProperties":10},"outputSchema":{},"handler":"connection"}`
	if got := register(one, first); got != `reply {"registered":true,"name":"Text.Count"}` {
		t.Fatal(got)
	}
	if got := register(one, first); got != "error 409 Text.Count is registered already on this connection; Syscall.Unregister takes it back" {
		t.Error(got)
	}
	for data, differs := range map[string]string{
		strings.Replace(first, "query", "command", 1):                                                                               "kind (it is a query)",
		strings.Replace(first, "10", "11", 1):                                                                                       "inputSchema",
		strings.Replace(first, `"outputSchema":{}`, `"outputSchema":false`, 1):                                                      "outputSchema",
		strings.Replace(first, `"name"`, `"emits":[{"type":"A.B"}],"name"`, 1):                                                      "emits (there are none)",
		strings.Replace(first, `"name"`, `"timeout":7,"name"`, 1):                                                                   "timeout (there is none)",
		`{"name":"Text.Count","kind":"command","description":"Count.","inputSchema":true,"outputSchema":{},"handler":"connection"}`: "kind (it is a query), inputSchema",
	} {
		want := "error 409 Text.Count is served by another connection, and your definition differs in " + differs + "; send the same as Syscall.Describe shows, or choose another name"
		if got := register(two, data); got != want {
			t.Errorf("%s: %s", data, got)
		}
	}
	// The same value in another form, and other words.
	if got := register(two, `{"handler":"connection","name":"Text.Count","kind":"query","description":"Zählen.","inputSchema":{"maxProperties":1e1,"type":"object"},"outputSchema":{}}`); got != `reply {"registered":true,"name":"Text.Count"}` {
		t.Error(got)
	}
	hash := k.Registry().All().Hash()
	one.close()
	if k.Registry().All().Hash() != hash {
		t.Error("it left while a connection serves it")
	}
	unregister := line("command", "Syscall.Unregister", "u", `{"name":"Text.Count"}`)
	for _, want := range []string{`reply {"unregistered":true}`, `reply {"unregistered":false}`} {
		if got := two.call(unregister); got != want {
			t.Error(got)
		}
	}
	if got := two.call(line("command", "Syscall.Unregister", "u", `{"name":"Ping"}`)); got != `reply {"unregistered":false}` {
		t.Error(got)
	}
	if got := types(t, two); strings.Contains(got, "Text.Count") {
		t.Errorf("listed are %s", got)
	}
	if got := register(two, first); got != `reply {"registered":true,"name":"Text.Count"}` {
		t.Error(got)
	}
}

func TestHowMuchMayBeRegistered(t *testing.T) {
	k := withModule(t, nil, &register.Options{PerConnection: 3, InAll: 4})
	one, two := connect(t, k), connect(t, k)
	one.register("Text.One", "Text.Two", "Other.Three")
	if got := one.call(registration("Text.Four", "")); got != "error 429 This connection serves 3 types, and no more are allowed; use another connection" {
		t.Error(got)
	}
	two.register("Text.One", "Text.Four")
	if got := two.call(registration("Text.Five", "")); got != "error 503 4 names are taken, and no more are; try again when some have gone" {
		t.Error(got)
	}
	one.close()
	two.register("Text.Five")
	if got := types(t, two); !strings.HasSuffix(got, "Text.Five Text.Four Text.One") {
		t.Errorf("listed are %s", got)
	}
}

// A program that asks for what it serves itself gets its own request.
func TestAProgramMayCallItself(t *testing.T) {
	p := connect(t, withModule(t, nil, nil))
	p.register("Text.Count")
	p.send(line("query", "Text.Count", "q", `1`))
	request := p.next()
	p.send(answering(request, "reply", "Text.Count", `2`))
	if got := brief(t, p.next()); got != "reply 2" {
		t.Error(got)
	}
}

// A program may call another syscall because of a request that it serves, and report an error and
// go on. The wire has the lineage that was sent.
func TestAProgramReportsAnErrorAndGoesOn(t *testing.T) {
	k := withModule(t, nil, nil)
	program, caller := connect(t, k), connect(t, k)
	program.register("Text.Count")
	caller.send(line("query", "Text.Count", "q1", `{"text":"a"}`))
	served := program.next()
	program.send(strings.Replace(line("query", "Ping", "p1", `{"payload":1}`), `"metadata":{`, `"metadata":{"causation":"`+string(served.Metadata.ID)+`",`, 1))
	if pong := program.next(); brief(t, pong) != `reply {"payload":1}` || pong.Metadata.Correlation != "" {
		t.Errorf("it got %s", message.Append(nil, &pong))
	}
	program.send(answering(served, "event", "Syscall.ErrorOccurred", `{"code":503,"message":"one of two failed"}`), answering(served, "reply", "Text.Count", `{"words":1}`))
	for _, want := range []string{`event Syscall.ErrorOccurred {"code":503,"message":"one of two failed"}`, `reply {"words":1}`} {
		if got := brief(t, caller.next()); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

// A registration in the form of the specifications, with the older name of kind and with nothing
// that they don't have, is enough. The module has the version that was given.
func TestTheShapeOfTheSpecificationIsEnough(t *testing.T) {
	k := withModule(t, nil, nil)
	program := connect(t, k)
	for _, kind := range []string{"kind", "type"} {
		name := map[string]string{"kind": "Newer.Count", "type": "Older.Count"}[kind]
		got := program.call(line("command", "Syscall.Register", kind, `{"name":"`+name+`","`+kind+`":"query","inputSchema":{},"outputSchema":{},"version":"2.1.0"}`))
		if got != `reply {"registered":true,"name":"`+name+`"}` {
			t.Error(got)
		}
	}
	for _, m := range k.Registry().All().Modules() {
		if (m.Name == "newer" || m.Name == "older") && m.Version != "2.1.0" {
			t.Errorf("%s has version %s", m.Name, m.Version)
		}
	}
	if got := program.call(line("command", "Sys.Register", "introspected", `{"name":"Sys1.Count","type":"query","inputSchema":{"type":"object"},"outputSchema":{}}`)); !strings.HasPrefix(got, `event Syscall.Deprecated {"what":"the name Sys.Register","instead":"Syscall.Register",`) {
		t.Error(got)
	}
	if got := brief(t, program.next()); got != `reply {"registered":true,"name":"Sys1.Count","introspection":{"name":"Sys1.Count","type":"query","input":{"type":"object"},"output":{}}}` {
		t.Error(got)
	}
	if got := program.call(line("command", "Syscall.Register", "none", `{"name":"Some.Count","inputSchema":{},"outputSchema":{}}`)); got != `error 422 Schema validation failed: missing required field: one of kind, type` {
		t.Error(got)
	}
}

// A name stays with its principal when the kernel starts again, also if the token was rotated, and
// is free when the principal has given it back or has ended.
func TestANameStaysWithItsPrincipal(t *testing.T) {
	s := storetest.NewMemory()
	ended := map[principal.ID]bool{}
	find := func(id principal.ID) (*principal.Principal, error) {
		if ended[id] {
			return nil, nil
		}
		return principal.New(id, string(id), principal.Grant{Preset: principal.Handler})
	}
	start := func() *kernel.Kernel { return withModule(t, nil, &register.Options{Store: s, Find: find}) }
	const taken = `error 409 Bank.Login belongs to the token "bank", which registered it first; choose another name`
	registers := func(k *kernel.Kernel, who, want string) *program {
		t.Helper()
		p := connectAs(t, k, who)
		if got := p.call(registration("Bank.Login", "")); !strings.HasPrefix(got, want) {
			t.Errorf("%s: %s; want %s", who, got, want)
		}
		return p
	}
	registers(start(), "bank", "reply").close()
	k := start()
	registers(k, "thief", taken)
	registers(k, "bank", "reply").close()
	registers(k, "thief", taken)
	bank := registers(k, "bank", "reply")
	if got := bank.call(line("command", "Syscall.Unregister", "u", `{"name":"Bank.Login"}`)); got != `reply {"unregistered":true}` {
		t.Fatal(got)
	}
	registers(start(), "other", "reply").close()
	ended["other"] = true
	registers(start(), "bank", "reply").close()
}
