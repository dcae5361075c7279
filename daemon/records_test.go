package daemon

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"kernos/journal"
	"kernos/kernel"
	"kernos/kernel/principal"
	"kernos/message"
	"kernos/store/storetest"
)

// Every record of a command names its sender, also where they are stored with the change.
func TestRecordsOfACommandNameItsSender(t *testing.T) {
	k := keepIn(t, t.TempDir(), storetest.NewMemory(), Options{})
	p := asConsole(t)
	k.as(p, "Memory.Set", `{"key":"k","value":1}`)
	k.as(p, "Echo", `{"message":"hello"}`)
	all, _, err := k.Journal().List(t.Context(), journal.Query{Limit: 100})
	if err != nil || len(all) != 5 { // a change publishes an event
		t.Errorf("%d records, %v", len(all), err)
	}
	for _, e := range all {
		if e.Principal != p.ID() || e.Name != p.Name() || e.Wire != "ws" {
			t.Errorf("%s %s acts for %q over %q", e.Message.Kind, e.Message.Type, e.Name, e.Wire)
		}
	}
	k.end(t)
}

// replay runs a workflow again, for the owner, and returns the report.
func (k *kept) replay(t *testing.T, p *principal.Principal, correlation string) (r struct {
	Commands int
	Same     int
	Skipped  []struct{ Type, Why string }
}) {
	t.Helper()
	got := k.as(p, "Message.Replay", fmt.Sprintf(`{"correlationId":%q,"execute":true}`, correlation))
	if err := json.Unmarshal(got.Data, &r); err != nil || got.Kind != message.KindReply {
		t.Fatalf("replay: %s", got.Data)
	}
	return r
}

// The attack: a token sends what it may not do, and waits for the owner to run the workflow
// again. A forged reply makes the request look like one that was answered.
func TestAReplayHasTheRightsOfTheSender(t *testing.T) {
	k := keepIn(t, t.TempDir(), storetest.NewMemory(), Options{})
	owner := principal.TheOwner()
	var token struct{ Token string }
	if got := k.as(owner, "Token.Create", `{"name":"ci","preset":"agent"}`); json.Unmarshal(got.Data, &token) != nil || token.Token == "" {
		t.Fatalf("%s", got.Data)
	}
	ci, err := k.tokens.Authenticate(token.Token)
	if err != nil {
		t.Fatal(err)
	}
	secret := filepath.Join(t.TempDir(), "secret.txt")
	if err := os.WriteFile(secret, []byte("hunter2"), 0o600); err != nil {
		t.Fatal(err)
	}
	send := func(p *principal.Principal, m message.Message) message.Message {
		answer, _ := k.Call(kernel.ActFor(t.Context(), kernel.From(p, "ws")), m, nil)
		return answer
	}
	steal := message.Message{Kind: message.KindCommand, Type: "Memory.Set",
		Data:     fmt.Appendf(nil, `{"key":"stolen","valueRef":{"scheme":"file","path":%q}}`, secret),
		Metadata: message.Metadata{ID: "steal", Correlation: "attack"}}
	forged := message.Message{Kind: message.KindReply, Type: "Memory.Set", Data: json.RawMessage(`{}`),
		Metadata: message.Metadata{ID: "forged", Timestamp: 1, Causation: "steal", Correlation: "attack"}}
	got := send(ci, steal)
	if got.Kind != message.KindError {
		t.Fatalf("the token reads any file: %s", got.Data)
	}
	if r := k.replay(t, owner, "attack"); r.Commands != 0 || len(r.Skipped) != 1 || r.Skipped[0].Why != "It was refused, with 403" {
		t.Errorf("%+v", r)
	}

	// Once more, with a forged reply before the refusal.
	steal.Metadata.ID, steal.Metadata.Timestamp, steal.Metadata.Correlation = "again", 1, "forged"
	forged.Metadata.Causation, forged.Metadata.Correlation = "again", "forged"
	got.Metadata.Causation, got.Metadata.Correlation = "again", "forged"
	k.kernel.Record(steal, kernel.In, kernel.From(ci, "ws"))
	send(ci, forged)
	k.kernel.Record(got, kernel.Out, kernel.From(ci, "ws"))
	if r := k.replay(t, owner, "forged"); r.Commands != 0 || len(r.Skipped) != 1 || r.Skipped[0].Why != "It was refused, with 403" {
		t.Errorf("%+v", r)
	}

	// A request without an answer is run, with the rights of the token.
	steal.Metadata = message.Metadata{ID: "pending", Correlation: "unanswered", Timestamp: 1}
	k.kernel.Record(steal, kernel.In, kernel.From(ci, "ws"))
	if r := k.replay(t, owner, "unanswered"); r.Commands != 1 || r.Same != 0 {
		t.Errorf("%+v", r)
	}
	if got := k.as(owner, "Memory.Get", `{"key":"stolen"}`); got.Kind != message.KindError {
		t.Errorf("the attack has succeeded: %s", got.Data)
	}

	// What the token may do, it does: for itself and for the owner, and for no other token.
	fine := message.Message{Kind: message.KindCommand, Type: "Memory.Set", Data: json.RawMessage(`{"key":"fine","value":1}`), Metadata: message.Metadata{Correlation: "fine"}}
	send(ci, fine)
	if r := k.replay(t, ci, "fine"); r.Commands != 1 {
		t.Errorf("%+v", r)
	}
	if r := k.replay(t, asConsole(t), "fine"); r.Commands != 0 || len(r.Skipped) != 1 || r.Skipped[0].Why != `It was sent by "ci"; the owner and "ci" can run it again` {
		t.Errorf("%+v", r)
	}
	if r := k.replay(t, owner, "fine"); r.Commands != 1 {
		t.Errorf("%+v", r)
	}
	k.as(owner, "Token.Revoke", `{"name":"ci"}`)
	if r := k.replay(t, owner, "fine"); r.Commands != 0 || len(r.Skipped) != 1 || r.Skipped[0].Why != `It was sent by the token "ci", which was revoked or has expired` {
		t.Errorf("%+v", r)
	}
	k.end(t)
}
