package kernel_test

import (
	"strings"
	"testing"

	"kernos/kernel"
	"kernos/kernel/kerneltest"
	"kernos/kernel/principal"
	"kernos/message"
	"kernos/schema"
)

// Looking at the kernel isn't recorded; acting, what belongs to a workflow, and what a token
// asks for are.
func TestWhichCallsAreRecorded(t *testing.T) {
	look := kerneltest.Echo("Test.Look")
	look.Recording = kernel.InWorkflows
	picky := kerneltest.Echo("Test.Pick")
	picky.Recording, picky.Input = kernel.InWorkflows, schema.Input[struct{ A int }]()
	records := new(senders)
	k := kerneltest.New(t, &kernel.Options{Recorder: records}, look, picky, kerneltest.Echo("Test.Read"), calling("Test.Call", "Test.Look"))
	token := newToken(t, principal.Grant{Preset: principal.Agent})
	for _, c := range []struct {
		name   string
		as     *principal.Principal
		change func(*message.Message)
		want   string
	}{
		{"the owner looks", nil, func(*message.Message) {}, ""},
		{"and is wrong", nil, func(m *message.Message) { m.Type = "Test.Pick" }, ""},
		{"the owner reads", nil, func(m *message.Message) { m.Type = "Test.Read" }, "query Test.Read, reply Test.Read"},
		{"in a workflow", nil, func(m *message.Message) { m.Metadata.Correlation = "w" }, "query Test.Look, reply Test.Look"},
		{"with a cause", nil, func(m *message.Message) { m.Metadata.Causation = "c" }, "query Test.Look, reply Test.Look"},
		{"as a command", nil, func(m *message.Message) { m.Kind = message.KindCommand }, "command Test.Look, reply Test.Look"},
		{"a token looks", token, func(*message.Message) {}, "query Test.Look, reply Test.Look"},
		{"a handler looks", nil, func(m *message.Message) { m.Type, m.Kind = "Test.Call", message.KindCommand }, "command Test.Call, query Test.Look, reply Test.Look, reply Test.Call"},
	} {
		m := kerneltest.Query("a", "Test.Look", `"x"`)
		c.change(&m)
		as(t, k, c.as, m)
		var got []string
		for line := range strings.Lines(records.taken()) {
			kind, rest, _ := strings.Cut(line, " ")
			typ, _, _ := strings.Cut(rest, " ")
			got = append(got, kind+" "+typ)
		}
		if text := strings.Join(got, ", "); text != c.want {
			t.Errorf("%s: recorded %q, want %q", c.name, text, c.want)
		}
	}
}
