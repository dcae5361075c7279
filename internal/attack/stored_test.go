package attack

import (
	"fmt"
	"strings"
	"testing"

	"kernos/capability/model/modeltest"
	"kernos/message"
)

// secretBase64 is the secret as models are sent files.
const secretBase64 = "YSBjYW5hcnkgb2YgdGhpcyBtYWNoaW5l"

// wasSent reports whether the model was sent what stands in the file.
func (p *puppet) wasSent() bool {
	for _, body := range p.model.Requests() {
		if strings.Contains(string(body), secret) || strings.Contains(string(body), secretBase64) {
			return true
		}
	}
	return false
}

// A file of a message is read with the rights of the one who sends the message, when it is sent. Nothing that is
// done with the session later reads what its messages point to.
func TestFilesOfMessagesAreReadForTheirSender(t *testing.T) {
	p := openPuppet(t)
	file := fmt.Sprintf(`[{"dataRef":%s,"mimeType":"text/plain"}]`, p.references()[1])
	https := fmt.Sprintf(`[{"dataRef":%s,"mimeType":"text/plain"}]`, p.references()[0])
	before := fmt.Sprint(p.reached())
	bare := p.token("bare", `"allow":["Session.*","Model.*"]`)
	var theirs struct{ Session string }
	p.callsInto(bare, "Session.Create", `{"model":"openai"}`, &theirs)
	for _, files := range []string{file, https} {
		for _, r := range []request{
			{"Session.Append", message.KindCommand, fmt.Sprintf(`{"session":%q,"message":{"type":"input","text":"Look.","files":%s}}`, theirs.Session, files)},
			{"Session.Send", message.KindCommand, fmt.Sprintf(`{"session":%q,"text":"Look.","files":%s}`, theirs.Session, files)},
		} {
			if o := p.call(bare, r.Type, r.Data); o.code != 403 {
				t.Errorf("%s: %v", r.Type, o)
			}
		}
	}
	for range 3 {
		p.callsInto(bare, "Session.Append", fmt.Sprintf(`{"session":%q,"message":{"type":"input","text":"Look."}}`, theirs.Session), nil)
	}
	p.must("Session.Compact", fmt.Sprintf(`{"session":%q,"keep":1}`, theirs.Session), nil)
	p.must("Session.Send", fmt.Sprintf(`{"session":%q,"text":"And?","wait":true}`, theirs.Session), nil)
	if after := fmt.Sprint(p.reached()); after != before || p.wasSent() {
		t.Errorf("it was %s, and is %s; the model was sent the file: %t", before, after, p.wasSent())
	}

	var own struct{ Session string }
	p.must("Session.Create", `{"model":"openai"}`, &own)
	var ended struct{ Status string }
	p.must("Session.Send", fmt.Sprintf(`{"session":%q,"text":"Look.","files":%s,"wait":true}`, own.Session, file), &ended)
	if ended.Status != "done" || !p.wasSent() {
		t.Errorf("the owner's file: %s, the model was sent the file: %t", ended.Status, p.wasSent())
	}
	if o := p.world.owner("Session.Messages", fmt.Sprintf(`{"session":%q}`, own.Session)); strings.Contains(o.String(), p.file) {
		t.Errorf("the message points to the file still: %v", o)
	}
}

// What a token's session may do without asking, a fork of it that acts for the owner may not.
func TestAForkForAnotherAllowsNothing(t *testing.T) {
	p := openPuppet(t)
	other := p.token("generous", `"preset":"agent"`)
	var theirs struct{ Session string }
	p.callsInto(other, "Session.Create", `{"model":"openai","tools":["*"],"policy":[{"match":"Memory.Get","decide":"ask"},{"match":"*","reach":"*","decide":"allow"},{"match":"*","decide":"allow"}]}`, &theirs)
	p.callsInto(other, "Session.Append", fmt.Sprintf(`{"session":%q,"message":{"type":"input","text":"Fetch and tell."}}`, theirs.Session), nil)
	policy := func(session string) (rules []struct{ Match, Decide string }) {
		t.Helper()
		var info struct {
			Policy []struct{ Match, Decide string }
		}
		p.must("Session.Get", fmt.Sprintf(`{"session":%q}`, session), &info)
		return info.Policy
	}
	var own, fork struct{ Session string }
	p.callsInto(other, "Session.Fork", fmt.Sprintf(`{"session":%q}`, theirs.Session), &own)
	if rules := policy(own.Session); len(rules) != 3 {
		t.Errorf("a fork of one's own session has the rules %v", rules)
	}
	p.must("Session.Fork", fmt.Sprintf(`{"session":%q}`, theirs.Session), &fork)
	if rules := policy(fork.Session); len(rules) != 1 || rules[0].Decide != "ask" {
		t.Errorf("the fork has the rules %v", rules)
	}
	before := fmt.Sprint(p.reached())
	calls := []modeltest.Call{
		{Name: "Http.Fetch", Args: fmt.Sprintf(`{"url":"http://%s/"}`, p.canaries.address)}, pointing(p.references()[0]), pointing(p.references()[1]),
		{Name: "Canary.Do", Args: `{}`}, {Name: "Syscall.Register", Args: registration("Own.Code", callsAnything, "")}, {Name: "Memory.Get", Args: `{"key":"notes/1"}`},
	}
	p.mu.Lock()
	p.pending["Turn of the fork."] = calls
	p.mu.Unlock()
	p.must("Session.Send", fmt.Sprintf(`{"session":%q,"text":"Turn of the fork."}`, fork.Session), nil)
	p.settled(fork.Session)
	turn := p.read(fork.Session)
	if len(turn.verdicts) != len(calls) {
		t.Fatalf("%d calls have %d results", len(calls), len(turn.verdicts))
	}
	for i, v := range turn.verdicts {
		if !v.asked {
			t.Errorf("%v: %v", calls[i], v)
		}
	}
	p.end(turn)
	if after := fmt.Sprint(p.reached()); after != before {
		t.Errorf("it was %s, and is %s", before, after)
	}
}
