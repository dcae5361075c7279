package daemon

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"kernos/internal/testkit"
	"kernos/journal"
	"kernos/kernel"
	"kernos/kernel/kerneltest"
	"kernos/kernel/principal"
	"kernos/message"
	"kernos/store/storetest"
)

// nesting is a syscall whose handler calls another one.
var nesting = kernel.Module{Name: "text", Version: "1.0.0", Summary: "Text.", Syscalls: []kernel.Syscall{
	kernel.Command(kernel.Definition{Type: "Text.Keep", Summary: "Keep a text."}, func(ctx context.Context, in string) (string, error) {
		_, err := kernel.Invoke(ctx, "Memory.Set", fmt.Appendf(nil, `{"key":%q,"value":1}`, in))
		return in, err
	}),
}}

// caused is a command that names its cause and no workflow.
func caused(id, cause message.ID, what message.Type, data string) message.Message {
	return message.Message{Kind: message.KindCommand, Type: what, Data: json.RawMessage(data),
		Metadata: message.Metadata{ID: id, Timestamp: 1735000000000, Causation: cause}}
}

// answer waits for the answer to a message.
func answer(t *testing.T, w *kerneltest.Wire, id message.ID) (a message.Message) {
	t.Helper()
	testkit.Until(t, fmt.Sprintf("%s is answered", id), func() bool {
		for _, m := range w.Messages() {
			if m.Kind.Answers() && m.Metadata.Causation == id {
				a = m
			}
		}
		return a.Kind != ""
	})
	return a
}

// What a message causes belongs to its workflow, also if it says so by its causation alone: while
// a program serves the request, after it has answered, and when the messages are on disk. The
// wire stays as it is.
func TestAWorkflowIsWhole(t *testing.T) {
	for _, workflow := range []string{"", "w"} {
		k := keepIn(t, t.TempDir(), storetest.NewMemory(), Options{Modules: []kernel.Module{nesting}})
		program, caller := kerneltest.Connect(k.kernel), kerneltest.Connect(k.kernel)
		program.In <- caused("register", "", "Syscall.Register", `{"name":"Weather.Report","kind":"command","inputSchema":{},"outputSchema":{}}`)
		answer(t, program, "register")
		first := caused("first", "", "Weather.Report", `{}`)
		first.Metadata.Correlation = workflow
		want := "first"
		if workflow != "" {
			want = workflow
		}
		caller.In <- first
		var served message.Message
		testkit.Until(t, "the program has the request", func() bool {
			for _, m := range program.Messages() {
				if m.Type == "Weather.Report" && m.Kind == message.KindCommand {
					served = m
				}
			}
			return served.Kind != ""
		})
		program.In <- caused("during", served.Metadata.ID, "Text.Keep", `"during"`)
		answer(t, program, "during")
		reply := caused("reply", served.Metadata.ID, "Weather.Report", `"sunny"`)
		reply.Kind = message.KindReply
		program.In <- reply
		got := answer(t, caller, "first")

		program.In <- caused("after", served.Metadata.ID, "Text.Keep", `"after"`)
		answer(t, program, "after")
		if err := k.Journal().Flush(); err != nil {
			t.Fatal(err)
		}
		caller.In <- caused("flushed", got.Metadata.ID, "Text.Keep", `"flushed"`)
		caller.In <- caused("chained", "flushed", "Text.Keep", `"chained"`)
		for _, id := range []message.ID{"flushed", "chained"} {
			if a := answer(t, caller, id); a.Metadata.Correlation != "" {
				t.Errorf("the reply to %s has a correlation that its request doesn't have: %s", id, message.Append(nil, &a))
			}
		}
		caller.In <- caused("other", "unknown", "Echo", `{"message":"x"}`)
		answer(t, caller, "other")

		if err := k.Journal().Flush(); err != nil {
			t.Fatal(err)
		}
		entries, _, err := k.Journal().List(t.Context(), journal.Query{Filter: journal.Filter{Correlation: want}, Limit: 1000})
		if err != nil {
			t.Fatal(err)
		}
		count := make(map[string]int)
		for _, e := range entries {
			count[fmt.Sprintf("%s %s", e.Message.Kind, e.Message.Type)]++
		}
		// The request and what the program got; four commands, each with a nested call and its event.
		const all = "map[command Memory.Set:4 command Text.Keep:4 command Weather.Report:2 event Memory.Changed:4 reply Memory.Set:4 reply Text.Keep:4 reply Weather.Report:2]"
		if got := fmt.Sprint(count); got != all {
			t.Errorf("the workflow %s has\n%s, want\n%s", want, got, all)
		}
		tree := k.as(principal.TheOwner(), "Message.Graph", fmt.Sprintf(`{"correlation":%q,"format":"tree"}`, want))
		var text string
		if err := json.Unmarshal(tree.Data, &text); err != nil {
			t.Fatal(err)
		}
		roots := 0
		for line := range strings.Lines(text) {
			if !strings.HasPrefix(line, " ") && !strings.HasPrefix(line, "├") && !strings.HasPrefix(line, "└") && !strings.HasPrefix(line, "│") {
				roots++
			}
		}
		if lines := strings.Count(text, "\n"); roots != 1 || lines != len(entries) {
			t.Errorf("the graph of %d messages has %d roots and %d lines:\n%s", len(entries), roots, lines, text)
		}
		for _, w := range []*kerneltest.Wire{program, caller} {
			if err := w.End(); err != nil {
				t.Error(err)
			}
		}
		k.end(t)
	}
}

// Code that was registered is registered again. What a connection serves isn't: the replay has no
// connection that could serve it.
func TestAReplayRegistersCodeAlone(t *testing.T) {
	k := keepIn(t, t.TempDir(), storetest.NewMemory(), Options{})
	if err := testkit.ShareEngine(k.home.State()); err != nil {
		t.Fatal(err)
	}
	program := kerneltest.Connect(k.kernel)
	for id, data := range map[message.ID]string{
		"code":    `{"name":"Text.Code","kind":"query","code":"export const handler = () => 1","inputSchema":{},"outputSchema":{}}`,
		"program": `{"name":"Text.Program","kind":"query","inputSchema":{},"outputSchema":{}}`,
	} {
		m := caused(id, "", "Syscall.Register", data)
		m.Metadata.Correlation = "w"
		program.In <- m
		if a := answer(t, program, id); a.Kind != message.KindReply {
			t.Fatalf("%s: %s", id, a.Data)
		}
	}
	k.as(principal.TheOwner(), "Syscall.Unregister", `{"name":"Text.Code"}`)
	const want = `"commands":1,"same":1,"different":[],"skipped":[{"id":"program","type":"Syscall.Register","why":"It concerns a connection, or the kernel as a process"}]}`
	if got := k.as(principal.TheOwner(), "Message.Replay", `{"correlationId":"w","execute":true}`); !strings.HasSuffix(string(got.Data), want) {
		t.Errorf("the replay replied %s, want …%s", got.Data, want)
	}
	if got := k.as(principal.TheOwner(), "Text.Code", `{}`); string(got.Data) != "1" {
		t.Errorf("Text.Code replied %s after the replay", got.Data)
	}
	if err := program.End(); err != nil {
		t.Error(err)
	}
	k.end(t)
}

// A token that sees its own messages only can't join the workflow of another caller by a guess.
func TestAWorkflowIsInheritedFromWhatTheSenderSees(t *testing.T) {
	k := keepIn(t, t.TempDir(), storetest.NewMemory(), Options{})
	ci := kerneltest.Principal(t, "01ci", "ci", principal.Grant{Preset: principal.Agent})
	send := func(p *principal.Principal, m message.Message) {
		k.kernel.Handle(kernel.ActFor(t.Context(), kernel.From(p, "ws")), m, func(message.Message) {})
	}
	root := caused("root", "", "Echo", `{"message":"x"}`)
	root.Metadata.Correlation = "w"
	send(principal.TheOwner(), root)
	own := caused("own", "", "Echo", `{"message":"x"}`)
	own.Metadata.Correlation = "v"
	send(ci, own)
	send(ci, caused("guess", "root", "Echo", `{"message":"x"}`))
	send(ci, caused("next", "own", "Echo", `{"message":"x"}`))
	send(principal.TheOwner(), caused("seen", "own", "Echo", `{"message":"x"}`))
	for id, want := range map[message.ID]string{"guess": "", "next": "v", "seen": "v"} {
		e, err := k.Journal().Get(t.Context(), id)
		if err != nil || e.Message.Metadata.Correlation != want {
			t.Errorf("%s belongs to the workflow %q, want %q (%v)", id, e.Message.Metadata.Correlation, want, err)
		}
	}
	k.end(t)
}
