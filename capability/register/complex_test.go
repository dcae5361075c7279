package register_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"kernos/message"
)

// doubling is a schema each of whose levels refers twice to the one below it.
func doubling(levels int) string {
	var b strings.Builder
	fmt.Fprintf(&b, `{"$ref":"#/$defs/l%d","$defs":{"l0":{"type":"string"}`, levels)
	for i := 1; i <= levels; i++ {
		fmt.Fprintf(&b, `,"l%d":{"allOf":[{"$ref":"#/$defs/l%d"},{"$ref":"#/$defs/l%d"}]}`, i, i-1, i-1)
	}
	return b.String() + "}}"
}

func withSchemas(name, input, output string) string {
	return line("command", "Syscall.Register", "r", fmt.Sprintf(`{"name":%q,"kind":"query","description":"A syscall of a test.","inputSchema":%s,"outputSchema":%s,"handler":"connection"}`, name, input, output))
}

// A schema that nothing can be checked against in a lifetime is refused; one that takes so
// long for some values only fails for those, and no caller waits for it.
func TestSchemasThatTakeForEver(t *testing.T) {
	k := withModule(t, nil, nil)
	caller, p := connect(t, k), connect(t, k)
	for field, schemas := range map[string][2]string{"inputSchema": {doubling(40), `{}`}, "outputSchema": {`{}`, doubling(40)}} {
		if got := p.call(withSchemas("Bomb.Try", schemas[0], schemas[1])); !strings.HasPrefix(got, "error 422 Schema validation failed: "+field+" is too complex: even for an empty value, the value can't be checked") {
			t.Errorf("%s: %s", field, got)
		}
	}
	const nested = `{"type":"object","properties":{"x":{"$ref":"#"}},"patternProperties":{"^x":{"$ref":"#"}}}`
	if got := p.call(withSchemas("Bomb.Nested", nested, nested)); !strings.HasPrefix(got, "reply") {
		t.Fatal(got)
	}
	deep := strings.Repeat(`{"x":`, 60) + `{}` + strings.Repeat(`}`, 60)
	if got := caller.call(line("query", "Bomb.Nested", "q", deep)); !strings.HasPrefix(got, "error 422 Schema validation failed: the value can't be checked: that takes more than ") {
		t.Error(got)
	}
	caller.send(line("query", "Bomb.Nested", "q", `{"x":{}}`))
	p.send(answering(p.next(), "reply", "Bomb.Nested", deep))
	if got := brief(t, caller.next()); !strings.HasPrefix(got, "error 502 The program that serves Bomb.Nested sent a reply that its outputSchema does not allow: the value can't be checked") {
		t.Error(got)
	}
}

// A second program can do what the error says: register what Syscall.Describe shows.
func TestADefinitionCanBeCopied(t *testing.T) {
	k := withModule(t, nil, nil)
	one, two := connect(t, k), connect(t, k)
	one.send(line("command", "Syscall.Register", "r", `{"name":"Text.Count","kind":"query","description":"Count.","inputSchema":{"type":"string"},"outputSchema":{"type":"integer"},"handler":"connection","timeout":1500,"emits":[{"type":"Text.Counted","description":"Some."},{"type":"Text.Read"}]}`))
	if got := brief(t, one.next()); !strings.HasPrefix(got, "reply") {
		t.Fatal(got)
	}
	const differs = `error 409 Text.Count is served by another connection, and your definition differs in inputSchema, outputSchema, emits (there are Text.Counted, Text.Read), timeout (it is 1500); send the same as Syscall.Describe shows, or choose another name`
	if got := two.call(registration("Text.Count", "")); got != differs {
		t.Error(got)
	}
	two.send(line("query", "Syscall.Describe", "d", `{"name":"Text.Count"}`))
	var shown map[string]json.RawMessage
	if err := json.Unmarshal(two.next().Data, &shown); err != nil {
		t.Fatal(err)
	}
	shown["inputSchema"], shown["outputSchema"], shown["description"] = shown["input"], shown["output"], shown["summary"]
	shown["handler"] = json.RawMessage(`"connection"`)
	for _, name := range []string{"input", "output", "summary", "errors", "example"} {
		delete(shown, name)
	}
	copied, err := json.Marshal(shown)
	if err != nil {
		t.Fatal(err)
	}
	if got := two.call(line("command", "Syscall.Register", "r", string(copied))); got != `reply {"registered":true,"name":"Text.Count"}` {
		t.Errorf("%s: %s", copied, got)
	}
}

// A connection serves others as long as it has registered something.
func TestWhatIsServedIsKnown(t *testing.T) {
	k := withModule(t, nil, nil)
	caller, p := connect(t, k), connect(t, k)
	p.register("Text.Count", "Text.Read")
	caller.send(line("query", "Text.Read", "q", `1`))
	request := p.next()
	const both = "[{Text.Count 1 0 0} {Text.Read 1 0 1}]"
	if got := fmt.Sprint(k.Services()); got != both {
		t.Errorf("got %s", got)
	}
	for _, name := range []message.Type{"Text.Count", "Text.Read"} {
		if got := p.call(line("command", "Syscall.Unregister", "u", fmt.Sprintf(`{"name":%q}`, name))); got != `reply {"unregistered":true}` {
			t.Error(got)
		}
	}
	if got := fmt.Sprint(k.Services()); got != "[{Text.Read 0 0 1}]" { // it has still to answer
		t.Errorf("got %s", got)
	}
	p.send(answering(request, "reply", "Text.Read", `1`))
	if got := brief(t, caller.next()); got != "reply 1" {
		t.Error(got)
	}
	if got := k.Services(); len(got) != 0 {
		t.Errorf("got %v", got)
	}
}
