package attack

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"kernos/internal/testkit"
	"kernos/message"
)

var lastID atomic.Int64

// newID returns an id for a message that no other has.
func newID() string { return fmt.Sprintf("attack-%d", lastID.Add(1)) }

// definition is the definition of a syscall that a program serves.
func definition(name string) string {
	return fmt.Sprintf(`{"name":%q,"kind":"query","description":"Log in.","inputSchema":{"type":"object","properties":{"password":{"type":"string"}}},"outputSchema":{"type":"object"},"handler":"connection"}`, name)
}

// A second principal that copies a definition does not get requests that are meant for the
// first, while that one serves, between its connections, or by another spelling.
func TestANameIsNotTakenOver(t *testing.T) {
	w := open(t)
	bank, thief, caller := w.token("bank", `"preset":"handler"`), w.token("thief", `"preset":"handler","allow":["*"]`), w.token("caller", "")
	serving, stealing, calling := w.link(bank), w.link(thief), w.link(caller)
	if o := serving.ask("Syscall.Register", newID(), definition("Bank.Login")); o.code != 0 {
		t.Fatal(o)
	}
	for _, name := range []string{
		"Bank.Login", "BANK.Login", "Bank.LOGIN", "Bank.login", "bank.login", "Bank.Login ", "Bank.Login.", // the name, and what looks like it
		"Memory.Get", "MEMORY.Get", "Memory.Peek", "Ping", "Sys.Describe", "Event.Graph", // the kernel's, and its older names
		"Job.Create", "Session.Send", "Model.Generate", "Agent.Run", "Token.Make", "Blob.Put", "Vector.Search", "Mcp.Call", // and those to come
	} {
		if o := stealing.ask("Syscall.Register", newID(), definition(name)); o.code < 400 || o.code >= 500 {
			t.Errorf("%q is registered by another: %v", name, o)
		}
	}
	if o := stealing.ask("Syscall.Register", newID(), definition("Bank.Login")); o.code != 409 || !strings.Contains(o.text, `the token "bank"`) {
		t.Errorf("the copy: %v", o)
	}
	if o := stealing.ask("Syscall.Unregister", newID(), `{"name":"Bank.Login"}`); o.String() != `{"unregistered":false}` {
		t.Errorf("the thief takes it out: %v", o)
	}
	for i := range 20 {
		id := newID()
		calling.send(fmt.Sprintf(`{"kind":"query","type":"Bank.Login","data":{"password":"secret"},"metadata":{"id":%q,"timestamp":1}}`, id))
		request := serving.next()
		stealing.answer(message.KindReply, request, `{"in":"the hands of a thief"}`)
		if o := stealing.ask("Ping", newID(), `{"payload":1}`); o.code != 0 { // it was taken before this
			t.Fatal(o)
		}
		serving.answer(message.KindReply, request, fmt.Sprintf(`{"number":%d}`, i))
		if m := calling.next(); m.Metadata.Causation != id || string(m.Data) != fmt.Sprintf(`{"number":%d}`, i) {
			t.Errorf("the caller got %+v", m)
		}
	}

	// The bank comes and goes, and the thief tries all the time.
	var trying sync.WaitGroup
	done := make(chan struct{})
	trying.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
			}
			if o := stealing.ask("Syscall.Register", newID(), definition("Bank.Login")); o.code != 409 {
				t.Errorf("while the bank comes and goes: %v", o)
				return
			}
		}
	})
	for range times(20, 2000) {
		serving.close()
		serving = w.link(bank)
		for {
			o := serving.ask("Syscall.Register", newID(), definition("Bank.Login"))
			if o.code == 0 {
				break
			}
			t.Errorf("the bank itself: %v", o)
		}
	}
	close(done)
	trying.Wait()

	// Only the owner takes over what no connection serves.
	owner := w.ownersLink()
	if o := owner.ask("Syscall.Register", newID(), definition("Bank.Login")); o.code != 409 {
		t.Errorf("the owner, while the bank serves: %v", o)
	}
	serving.close()
	testkit.Until(t, "the bank has left", func() bool {
		return !strings.Contains(w.owner("Syscall.List", `{}`).String(), "Bank.Login")
	})
	if o := stealing.ask("Syscall.Register", newID(), definition("Bank.Login")); o.code != 409 {
		t.Errorf("the thief, when no program serves: %v", o)
	}
	if o := owner.ask("Syscall.Register", newID(), definition("Bank.Login")); o.code != 0 {
		t.Errorf("the owner, when no program serves: %v", o)
	}
	for _, other := range []*link{w.link(bank), stealing} {
		if o := other.ask("Syscall.Register", newID(), definition("Bank.Login")); o.code != 409 || !strings.Contains(o.text, "the owner") {
			t.Errorf("after the owner: %v", o)
		}
	}
}

// What is sent in the name of others is recorded as what its sender claims.
func TestForgedAnswersAreClaims(t *testing.T) {
	w := open(t)
	victim, forger := w.link(w.token("victim", "")), w.link(w.token("forger", ""))
	if o := victim.ask("Memory.Set", "payment", `{"key":"paid","value":false}`); o.code != 0 {
		t.Fatal(o)
	}
	for _, kind := range []string{"reply", "error", "event"} {
		forger.send(fmt.Sprintf(`{"kind":%q,"type":"Memory.Set","data":{"code":500,"message":"forged"},"metadata":{"id":"forged-%s","timestamp":1,"causation":"payment","correlation":"payment"}}`, kind, kind))
	}
	if o := forger.ask("Ping", newID(), `{"payload":1}`); o.code != 0 {
		t.Fatal(o)
	}
	var found struct {
		Messages []incoming
		Records  []struct {
			Principal, Wire string
			Claim           bool
		}
	}
	o := w.owner("Message.List", `{"limit":1000,"records":true}`)
	if err := json.Unmarshal(o.data, &found); err != nil || o.code != 0 {
		t.Fatal(o, err)
	}
	forged := 0
	for i, m := range found.Messages {
		id, r := m.Metadata.ID, found.Records[i]
		switch {
		case strings.HasPrefix(id, "forged-"):
			forged++
			if r.Principal != "forger" || r.Wire != "http" || !r.Claim {
				t.Errorf("%s is recorded as %+v", id, r)
			}
		case id == "payment" || m.Metadata.Causation == "payment":
			if r.Principal != "victim" || r.Claim {
				t.Errorf("%s is recorded as %+v", id, r)
			}
		}
	}
	if forged != 3 {
		t.Errorf("%d of them are recorded: %s", forged, o)
	}
}

// The same key of another principal is another key, and some are the kernel's.
func TestIdempotencyKeysBelongToTheirPrincipal(t *testing.T) {
	w := open(t)
	keyed := func(key, value string) string {
		return fmt.Sprintf(`{"kind":"command","type":"Memory.Set","data":{"key":"once","value":%q},"metadata":{"id":%q,"timestamp":1,"idempotencyKey":%q}}`, value, newID(), key)
	}
	owner := w.ownersLink()
	links := map[string]*link{"owner": owner, "one": w.link(w.token("one", "")), "two": w.link(w.token("two", `"preset":"console"`))}
	set := func(name string) string {
		l := links[name]
		l.send(keyed("pay", name))
		if o := l.next().outcome(); o.code != 0 {
			t.Errorf("%s: %v", name, o)
		}
		return w.owner("Memory.Get", `{"key":"once"}`).String()
	}
	for _, name := range []string{"one", "two", "owner"} {
		if got := set(name); got != fmt.Sprintf("%q", name) {
			t.Errorf("%s has sent its key, and what was done is %s", name, got)
		}
	}
	for _, name := range []string{"one", "two", "owner"} {
		if got := set(name); got != `"owner"` {
			t.Errorf("%s has sent its key again, and it was done again: %s", name, got)
		}
	}
	for name, l := range links {
		for _, key := range []string{"session/1/2", "job/1", "session/", "job/"} {
			l.send(keyed(key, "forged"))
			if o := l.next().outcome(); o.code != 403 {
				t.Errorf("%s: the key %s: %v", name, key, o)
			}
		}
	}
	if got := w.owner("Memory.Get", `{"key":"once"}`).String(); got != `"owner"` {
		t.Errorf("what was refused was done: %s", got)
	}
}

// A command that a program had and has not answered is not sent a second time: whether it was done
// isn't known, and a retry with its idempotency key gets a 409 that says so, whichever program serves the
// syscall by then. Where the program says that it may be repeated, it is.
func TestTheKeyOfAProgramThatHasLeft(t *testing.T) {
	w := open(t)
	program, calling := w.token("program", `"preset":"handler"`), w.ownersLink()
	pay := func(name string) incoming {
		id := newID()
		calling.send(fmt.Sprintf(`{"kind":"command","type":%q,"data":{},"metadata":{"id":%q,"timestamp":1,"idempotencyKey":"once %s"}}`, name, id, name))
		return incoming{Metadata: struct{ ID, Causation string }{ID: id}}
	}
	outcomeOf := func(m incoming) outcome {
		answer := calling.next()
		if answer.Metadata.Causation != m.Metadata.ID {
			t.Fatalf("got %+v", answer)
		}
		return answer.outcome()
	}
	for name, repeated := range map[string]bool{"Bank.Pay": false, "Bank.Look": true} {
		register := fmt.Sprintf(`{"name":%q,"kind":"command","safeToRepeat":%t,"inputSchema":{},"outputSchema":{}}`, name, repeated)
		serving := w.link(program)
		if o := serving.ask("Syscall.Register", newID(), register); o.code != 0 {
			t.Fatal(o)
		}
		first := pay(name)
		if m := serving.next(); m.Type != message.Type(name) {
			t.Fatalf("the program got %+v", m)
		}
		serving.close()
		if o := outcomeOf(first); o.code != 502 {
			t.Errorf("%s: the program has left: %v", name, o)
		}
		serving = w.link(program)
		if o := serving.ask("Syscall.Register", newID(), register); o.code != 0 {
			t.Fatal(o)
		}
		again := pay(name)
		if repeated {
			serving.answer(message.KindReply, serving.next(), `{"done":true}`)
			if o := outcomeOf(again); o.String() != `{"done":true}` {
				t.Errorf("%s: what may be repeated: %v", name, o)
			}
			continue
		}
		if o := outcomeOf(again); o.code != 409 || !strings.Contains(o.text, fmt.Sprintf(`idempotency key "once %s"`, name)) || !strings.Contains(o.text, "or the program that served it left") {
			t.Errorf("%s: the same key again: %v", name, o)
		}
		if o := serving.ask("Ping", newID(), `{"payload":1}`); o.code != 0 { // nothing else has come
			t.Errorf("%s: %v", name, o)
		}
	}
}
