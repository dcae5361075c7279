package connection_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"

	"kernos/kernel"
	"kernos/kernel/connection"
	"kernos/kernel/kerneltest"
	"kernos/kernel/principal"
	"kernos/message"
	"kernos/store"
)

// names notes the names of the senders whose requests are recorded.
type names struct{ got []string }

func (n *names) Record(r kernel.Record) {
	if r.Message.Kind.Asks() && r.Message.Type.Domain() == "Test" && r.Way == kernel.In {
		n.got = append(n.got, string(r.Message.Type)+" "+r.Sender.Name())
	}
}

func (*names) RecordWith(*store.Batch, []kernel.Record, func() error) error { return nil }

// What a program sends because of a call that it serves may do what both may, the caller and the
// program; the kind of the served call binds it, and records name both.
func TestAProgramServesWithTheRightsOfBoth(t *testing.T) {
	const handler, agent, owner = "ci", "agent", "owner"
	grants := map[string]principal.Grant{
		handler: {Preset: principal.Handler, Allow: []string{"Test.Free", "Test.Change", "Test.Offer"}},
		agent:   {Allow: []string{"Test.Free", "Test.Kept", "Test.Ask", "Test.Do"}},
	}
	token := func(name string) *principal.Principal {
		if name == owner {
			return principal.TheOwner()
		}
		p, err := principal.New(principal.ID(name+"-id"), name, grants[name])
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	for _, c := range []struct {
		name            string
		program, caller string
		served, sends   message.Type
		code            int
		record          string
	}{
		{"both may", handler, owner, "Test.Do", "Test.Free", 0, "owner/ci"},
		{"the caller alone may", handler, owner, "Test.Do", "Test.Kept", 403, ""},
		{"the program alone may", handler, agent, "Test.Do", "Test.Change", 403, ""},
		{"both tokens may", handler, agent, "Test.Do", "Test.Free", 0, "agent/ci"},
		{"the owner's program", owner, agent, "Test.Do", "Test.Kept", 0, "agent"},
		{"the owner's program for the owner", owner, owner, "Test.Do", "Test.Kept", 0, "owner"},
		{"a command for a query", handler, owner, "Test.Ask", "Test.Change", 403, ""},
		{"a query for a query", handler, owner, "Test.Ask", "Test.Free", 0, "owner/ci"},
		{"a command of the owner's program for a query", owner, owner, "Test.Ask", "Test.Change", 403, ""},
		{"a command for a command", handler, owner, "Test.Do", "Test.Change", 0, "owner/ci"},
		{"a query that calls a command, for a query", owner, owner, "Test.Ask", "Test.Delegates", 403, ""},
	} {
		synctest.Test(t, func(t *testing.T) {
			var peer *connection.Peer
			offer := kerneltest.Raw("Test.Offer", func(ctx context.Context, m message.Message, emit kernel.Emit) {
				peer, _ = connection.PeerOf(ctx)
				emit(m.Reply(nil))
			})
			delegates := kerneltest.Raw("Test.Delegates", func(ctx context.Context, m message.Message, emit kernel.Emit) {
				data, err := kernel.Invoke(ctx, "Test.Change", m.Data)
				if err != nil {
					kernel.Fail(ctx, m, emit, err)
					return
				}
				emit(m.Reply(data))
			})
			delegates.Effect = kernel.Delegated
			n := new(names)
			k := kerneltest.New(t, &kernel.Options{Recorder: n}, offer, delegates, kerneltest.Echo("Test.Free"), kerneltest.Echo("Test.Kept"),
				kerneltest.AsCommand(kerneltest.Echo("Test.Change")),
				asking("Test.Ask", func() *connection.Peer { return peer }), kerneltest.AsCommand(asking("Test.Do", func() *connection.Peer { return peer })))
			program := kerneltest.ConnectWith(kernel.ActFor(t.Context(), kernel.From(token(c.program), "unix")), k)
			caller := kerneltest.ConnectWith(kernel.ActFor(t.Context(), kernel.From(token(c.caller), "ws")), k)
			program.In <- kerneltest.Query("offer", "Test.Offer", `1`)
			synctest.Wait()
			kind := message.KindCommand
			if c.served == "Test.Ask" {
				kind = message.KindQuery
			}
			caller.In <- message.Message{Kind: kind, Type: c.served, Data: []byte(`1`), Metadata: message.Metadata{ID: "call", Timestamp: 1}}
			synctest.Wait()
			all := program.Messages()
			request := all[len(all)-1]
			if !request.Kind.Asks() {
				t.Fatalf("%s: the program got %s %s", c.name, request.Kind, request.Data)
			}
			send := message.Message{Kind: message.KindCommand, Type: c.sends, Data: []byte(`1`), Metadata: message.Metadata{ID: "sent", Timestamp: 1, Causation: request.Metadata.ID}}
			n.got = nil
			program.In <- send
			synctest.Wait()
			all = program.Messages()
			answer := all[len(all)-1]
			code := 0
			if answer.Kind == message.KindError {
				code = answer.Failure().Code
			}
			if code != c.code || c.record != "" && !slices.Contains(n.got, fmt.Sprintf("%s %s", c.sends, c.record)) {
				t.Errorf("%s: got %s %s, recorded %q", c.name, answer.Kind, answer.Data, n.got)
			}
			program.In <- message.Message{Kind: message.KindReply, Type: c.served, Data: []byte(`1`), Metadata: message.Metadata{ID: "answer", Timestamp: 1, Causation: request.Metadata.ID}}
			synctest.Wait()
			n.got = nil
			program.In <- send
			synctest.Wait()
			if len(n.got) != 1 || n.got[0] != string(c.sends)+" "+c.program {
				t.Errorf("%s: after the call, recorded %q", c.name, n.got)
			}
			for _, wire := range []*kerneltest.Wire{caller, program} {
				if err := wire.End(); err != nil {
					t.Error(err)
				}
			}
		})
	}
}
