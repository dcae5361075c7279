package kernel_test

import (
	"context"
	"encoding/json"
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
	fails := kerneltest.Raw("Test.Fail", func(_ context.Context, m message.Message, emit kernel.Emit) { emit(m.Fail(message.Errorf(404, "No"))) })
	cancels := kerneltest.Raw("Test.Cancel", func(_ context.Context, m message.Message, emit kernel.Emit) { emit(m.Fail(message.Errorf(499, "No"))) })
	fails.Recording, cancels.Recording = kernel.InWorkflows, kernel.InWorkflows
	sum, deep := calling("Test.Sum", "Test.Look"), calling("Test.Deep", "Test.Through")
	through := calling("Test.Through", "Test.Read")
	sum.Kind, deep.Kind, through.Kind = message.KindQuery, message.KindQuery, message.KindQuery
	sum.Recording, deep.Recording = kernel.InWorkflows, kernel.InWorkflows
	records := new(senders)
	k := kerneltest.New(t, &kernel.Options{Recorder: records}, look, picky, fails, cancels, sum, deep, through, kerneltest.Echo("Test.Read"), calling("Test.Call", "Test.Look"))
	token := newToken(t, principal.Grant{Preset: principal.Agent})
	for _, c := range []struct {
		name   string
		as     *principal.Principal
		change func(*message.Message)
		want   string
	}{
		{"the owner looks", nil, func(*message.Message) {}, ""},
		{"and is wrong", nil, func(m *message.Message) { m.Type = "Test.Pick" }, "query Test.Pick, error Test.Pick"},
		{"and it fails", nil, func(m *message.Message) { m.Type = "Test.Fail" }, "query Test.Fail, error Test.Fail"},
		{"and repeats it", nil, func(m *message.Message) { m.Metadata.Repeated = true }, ""},
		{"and repeats what fails", nil, func(m *message.Message) { m.Type, m.Metadata.Repeated = "Test.Fail", true }, "query Test.Fail, error Test.Fail"},
		{"and cancels it", nil, func(m *message.Message) { m.Type = "Test.Cancel" }, ""},
		{"and repeats reading", nil, func(m *message.Message) { m.Type, m.Metadata.Repeated = "Test.Read", true }, ""},
		{"a token repeats reading", token, func(m *message.Message) { m.Type, m.Metadata.Repeated = "Test.Read", true }, "query Test.Read, reply Test.Read"},
		{"the owner reads", nil, func(m *message.Message) { m.Type = "Test.Read" }, "query Test.Read, reply Test.Read"},
		{"and sums up", nil, func(m *message.Message) { m.Type = "Test.Sum" }, ""},
		{"and sums up what is read", nil, func(m *message.Message) { m.Type = "Test.Deep" }, "query Test.Through, query Test.Read, reply Test.Read, reply Test.Through"},
		{"and repeats that", nil, func(m *message.Message) { m.Type, m.Metadata.Repeated = "Test.Deep", true }, ""},
		{"a token sums up", token, func(m *message.Message) { m.Type = "Test.Sum" }, "query Test.Sum, query Test.Look, reply Test.Look, reply Test.Sum"},
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

// What grows in small pieces is recorded when it is whole.
func TestWhichEventsAreRecorded(t *testing.T) {
	speak := kerneltest.Raw("Test.Speak", func(_ context.Context, m message.Message, emit kernel.Emit) {
		emit(m.Event("Test.Begun", json.RawMessage(`1`)))
		emit(m.Event("Test.Grown", json.RawMessage(`2`)))
		emit(m.Reply(m.Data))
	})
	speak.Emits = []kernel.EventDefinition{{Type: "Test.Begun"}, {Type: "Test.Grown", Unrecorded: true}}
	retell := kerneltest.Raw("Test.Retell", func(ctx context.Context, m message.Message, emit kernel.Emit) {
		data, err := kernel.InvokeAs(ctx, kernel.NewCall{Type: "Test.Speak", Data: m.Data, Event: func(e message.Message) {
			emit(m.Event("Test.Retold", e.Data))
		}})
		if err != nil {
			kernel.Fail(ctx, m, emit, err)
			return
		}
		emit(m.Reply(data))
	})
	retell.Emits = []kernel.EventDefinition{{Type: "Test.Retold"}}
	records := new(senders)
	k := kerneltest.New(t, &kernel.Options{Recorder: records}, speak, retell)
	for _, c := range []struct {
		t              message.Type
		sent, recorded string
	}{
		{"Test.Speak", "Test.Begun 1, Test.Grown 2, Test.Speak 0", "query Test.Speak, event Test.Begun, reply Test.Speak"},
		{"Test.Retell", "Test.Retold 1, Test.Retold 2, Test.Retell 0", "query Test.Retell, query Test.Speak, event Test.Retold, event Test.Retold, reply Test.Speak, reply Test.Retell"},
	} {
		var sent, recorded []string
		for _, m := range kerneltest.Ask(k, kerneltest.Query("a", c.t, `0`)) {
			sent = append(sent, string(m.Type)+" "+string(m.Data))
		}
		for line := range strings.Lines(records.taken()) {
			words := strings.Fields(line)
			recorded = append(recorded, words[0]+" "+words[1])
		}
		if got := strings.Join(sent, ", "); got != c.sent {
			t.Errorf("%s sent %s", c.t, got)
		}
		if got := strings.Join(recorded, ", "); got != c.recorded {
			t.Errorf("%s recorded %s", c.t, got)
		}
	}
}
