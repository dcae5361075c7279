package attack

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"kernos/capability/model/modeltest"
	"kernos/daemon"
	"kernos/internal/testkit"
	"kernos/kernel"
	"kernos/kernel/principal"
	"kernos/message"
)

// A puppet is a model that calls what a test wants, in sessions of the owner.
type puppet struct {
	*world
	*canaries
	model *modeltest.Server

	mu      sync.Mutex
	turns   int
	pending map[string][]modeltest.Call // by the text that begins the turn
}

func openPuppet(t *testing.T) *puppet {
	t.Helper()
	p := &puppet{pending: map[string][]modeltest.Call{}}
	p.model = modeltest.ServeFunc(t, func(_ string, body []byte) modeltest.Answer {
		p.mu.Lock()
		defer p.mu.Unlock()
		for text, calls := range p.pending {
			if bytes.Contains(body, []byte(text)) {
				delete(p.pending, text)
				return modeltest.Answer{Calls: calls}
			}
		}
		return modeltest.Answer{Text: "Done."}
	})
	o := &daemon.Options{Models: p.model.Models()}
	p.canaries = newCanaries(t, o)
	p.world = openWith(t, o)
	p.settle(p.world)
	return p
}

// A verdict is what became of a call of the model.
type verdict struct {
	asked   bool
	named   []kernel.Reached // in the approval-request
	rule    string
	refused int // the code of the error
	text    string
}

func (v verdict) String() string {
	switch {
	case v.asked:
		return fmt.Sprintf("it asks (%s) for %v", v.rule, v.named)
	case v.refused != 0:
		return fmt.Sprintf("%d %s", v.refused, v.text)
	}
	return "it succeeds: " + message.Clip(v.text, 300)
}

// A turn is one of a session in which the model has made calls.
type turn struct {
	session  string
	verdicts []verdict
	ids      []string // of the calls
}

// talk begins a session with settings, and lets the model make calls in one turn. It returns when every call has a
// result, or waits for a decision.
func (p *puppet) talk(settings string, calls []modeltest.Call) *turn {
	p.t.Helper()
	var created struct{ Session string }
	p.must("Session.Create", fmt.Sprintf(`{"model":"openai"%s}`, more(settings)), &created)
	p.mu.Lock()
	p.turns++
	text := fmt.Sprintf("Turn number %d.", p.turns)
	p.pending[text] = calls
	p.mu.Unlock()
	p.must("Session.Send", fmt.Sprintf(`{"session":%q,"text":%q}`, created.Session, text), nil)
	p.settled(created.Session)
	return p.read(created.Session)
}

// settled waits until the turn of a session has ended, or waits for decisions.
func (p *puppet) settled(session string) {
	p.t.Helper()
	testkit.Until(p.t, "the turn has ended, or waits", func() bool {
		var now struct{ Status string }
		p.must("Session.Get", fmt.Sprintf(`{"session":%q}`, session), &now)
		return now.Status != "running"
	})
}

// read reads what became of the calls of a session's first turn.
func (p *puppet) read(session string) *turn {
	p.t.Helper()
	type said struct {
		Seq   uint64
		Type  string
		Calls []struct {
			ID string
		}
		Results []struct {
			CallID string
			Output json.RawMessage
			Error  *struct {
				Code    int
				Message string
			}
		}
		CallID  string `json:"call"` // of an approval-request
		Rule    string
		Reached []kernel.Reached
	}
	turn := &turn{session: session}
	found := map[string]verdict{}
	for after := uint64(0); ; {
		var page struct{ Messages []json.RawMessage }
		p.must("Session.Messages", fmt.Sprintf(`{"session":%q,"after":%d,"limit":1000}`, session, after), &page)
		if len(page.Messages) == 0 {
			break
		}
		for _, text := range page.Messages {
			if bytes.Contains(text, []byte(secret)) {
				p.t.Errorf("the session %s has what stands in the file: %s", session, text)
			}
			var m said
			if err := json.Unmarshal(text, &m); err != nil {
				p.t.Fatal(err)
			}
			after = m.Seq
			for _, c := range m.Calls {
				turn.ids = append(turn.ids, c.ID)
			}
			for _, r := range m.Results {
				v := verdict{text: string(r.Output)}
				if r.Error != nil {
					v.refused, v.text = r.Error.Code, r.Error.Message
				}
				found[r.CallID] = v
			}
			if m.Type == "approval-request" {
				found[m.CallID] = verdict{asked: true, named: m.Reached, rule: m.Rule}
			}
		}
	}
	for _, id := range turn.ids {
		turn.verdicts = append(turn.verdicts, found[id])
	}
	return turn
}

// end cancels the turn, so that what waits in it is never done.
func (p *puppet) end(turn *turn) {
	p.t.Helper()
	p.must("Session.Cancel", fmt.Sprintf(`{"session":%q}`, turn.session), nil)
}

// batch returns how many calls a model makes in a turn, which ends within the patience of a test, also where everything takes
// ten times as long.
func batch() int {
	if testkit.Race {
		return 6
	}
	return 60
}

// tryAll lets the model make probes, and checks that no canary was reached. It returns what became of each.
func (p *puppet) tryAll(how, settings string, probes []probe, as func(probe) modeltest.Call) (all []verdict) {
	p.t.Helper()
	for some := range slices.Chunk(probes, batch()) {
		all = append(all, p.try(how, settings, some, as)...)
	}
	return all
}

func (p *puppet) try(how, settings string, probes []probe, as func(probe) modeltest.Call) []verdict {
	p.t.Helper()
	before := fmt.Sprint(p.reached())
	calls := make([]modeltest.Call, len(probes))
	for i, one := range probes {
		calls[i] = as(one)
	}
	turn := p.talk(settings, calls)
	p.end(turn)
	p.jobsEnded()
	if len(turn.verdicts) != len(probes) {
		p.t.Fatalf("%s: %d calls have %d results", how, len(probes), len(turn.verdicts))
	}
	if after := fmt.Sprint(p.reached()); after != before {
		if err := p.leave(); err != nil {
			p.t.Fatal(err)
		}
		failed := p.t.Failed()
		if len(probes) > 1 { // which one was it?
			for _, half := range [][]probe{probes[:len(probes)/2], probes[len(probes)/2:]} {
				p.try(how, settings, half, as)
			}
		}
		if failed || !p.t.Failed() { // it was done once, and is known now
			p.t.Errorf("%s: one of %v reached something; it was %s, and is %s: %v", how, probes, before, after, turn.verdicts)
		}
	}
	return turn.verdicts
}

// jobsEnded waits until no job runs that isn't a schedule.
func (p *puppet) jobsEnded() {
	p.t.Helper()
	var left string
	if ended := testkit.Poll(func() bool {
		for _, status := range []string{"pending", "running"} {
			var list struct {
				Jobs []struct{ Name, Schedule, Token, WaitsFor string }
			}
			p.must("Job.List", fmt.Sprintf(`{"status":%q}`, status), &list)
			for _, j := range list.Jobs {
				if j.Schedule == "" {
					left = fmt.Sprintf("%s %+v", status, j)
					return false
				}
			}
		}
		return true
	}); !ended {
		p.t.Fatalf("a job hasn't ended: %s", left)
	}
}

// direct makes a probe as a call.
func direct(p probe) modeltest.Call { return modeltest.Call{Name: string(p.Type), Args: p.Data} }

// readReaches reads testdata/reaches.txt: what calls of a syscall reach, by its parameters.
func readReaches(t *testing.T) map[string][]string {
	t.Helper()
	text, err := os.ReadFile("testdata/reaches.txt")
	if err != nil {
		t.Fatal(err)
	}
	table := map[string][]string{}
	for line := range strings.Lines(string(text)) {
		if fields := strings.Fields(line); len(fields) > 2 && fields[0] != "#" {
			table[fields[0]+" "+fields[1]] = fields[2:]
		}
	}
	return table
}

// The canaries count: what the owner calls reaches them. Otherwise the tests below would show nothing.
func TestCanariesCount(t *testing.T) {
	p := openPuppet(t)
	ran := func() bool { return p.reached()[kernel.ToProgram] > p.asked.Load()+p.program.Load() }
	for _, c := range []struct {
		what    message.Type
		data    string
		reached func() bool
	}{
		{"Memory.Set", fmt.Sprintf(`{"key":"notes/copy","as":"text","valueRef":%s}`, p.references()[1]), func() bool { return !opensAreCounted || p.opened() > 0 }},
		{"Content.Hydrate", fmt.Sprintf(`{"uri":"https://%s/x"}`, p.canaries.address), func() bool { return p.network.Load() > 0 }},
		{"VFS.Read", `{"uri":"os://web/page"}`, func() bool { return p.mounted.Load() > 0 }},
		{"Fake.Act", `{}`, func() bool { return p.asked.Load() > 0 }},
		{"Content.Hydrate", `{"uri":"os://scripts/agent.md"}`, ran},
		{"Job.Start", `{"name":"Canary.Do"}`, nil},
	} {
		if c.reached != nil && c.reached() {
			t.Errorf("%s %s: it was reached before", c.what, c.data)
		}
		o := p.world.owner(c.what, c.data)
		if c.reached != nil && !c.reached() {
			t.Errorf("%s %s: %v, and nothing was reached", c.what, c.data, o)
		}
	}
	testkit.Until(t, "the program is called", func() bool { return p.program.Load() > 0 })
}

// TestEveryReachIsDeclared compares the table with what the definitions declare, of hidden syscalls too. What only
// the owner may call reaches something.
func TestEveryReachIsDeclared(t *testing.T) {
	table := readReaches(t)
	p := openPuppet(t)
	hidden := 0
	for _, s := range p.served() {
		var declared []string
		for _, r := range s.Reaches {
			declared = append(declared, string(r))
		}
		key := string(s.Type) + " *"
		if !slices.Equal(table[key], declared) {
			t.Errorf("%s reaches %v, and the table has %v", s.Type, declared, table[key])
		}
		if s.Access == principal.OwnerOnly && declared == nil {
			t.Errorf("%s is for the owner only, and declares no reach", s.Type)
		}
		if s.Visibility == kernel.Hidden {
			hidden++
		}
		delete(table, key)
	}
	for key := range table {
		if strings.HasSuffix(key, " *") {
			t.Errorf("the table has %s, which isn't served", key)
		}
	}
	if hidden == 0 {
		t.Error("no hidden syscall was looked at")
	}
}

// unreachable are parameters that no probe can be made for, with the reasons.
var unreachable = map[string]string{
	"Kernel.Backup key/salt": "base64", "Kernel.Backup key/text": "base64",
	"Syscall.Register version": "a version, by its pattern",
}

// Whatever a model calls in a session of the owner, with whatever parameter: nothing outside of the kernel is
// reached without an approval, and what asks names what it reaches. Which parameters that are is in the table.
func TestAModelReachesNothingByItself(t *testing.T) {
	table := readReaches(t)
	p := openPuppet(t)
	probes, none := p.probes(t, p.served())
	for _, param := range none {
		if unreachable[param] == "" {
			t.Errorf("%s: no valid call could be made; add a base for it, or a reason to unreachable", param)
		}
	}
	// What the table has is tried with all values, and the rest with some of them; with the race detector, all of it with some.
	i := 0
	probes = slices.DeleteFunc(probes, func(one probe) bool {
		i++
		switch {
		case *long:
			return false
		case testkit.Race:
			return table[one.key()] == nil && i%25 != 0
		}
		return one.Param != "" && table[one.key()] == nil && i%5 != 0
	})
	found := p.sweep("directly", `"tools":["*"]`, probes)
	// What a rule allows that names no reach are calls with what they are there for, and nothing else.
	for _, name := range []message.Type{"Model.Generate", "VFS.Write", "Syscall.Register", "VFS.Delete", "Session.Send", "Session.Append", "Session.Cancel", "Session.Rewind", "Session.Compact", "Session.Continue", "Session.Delete"} {
		some := slices.DeleteFunc(slices.Clone(probes), func(one probe) bool {
			return one.Type != name || table[one.key()] == nil && !strings.HasSuffix(one.Param, "Ref") && one.Param != "session"
		})
		for key, reaches := range p.sweep("allowed", fmt.Sprintf(`"tools":["*"],"policy":[{"match":%q,"decide":"allow"}]`, name), some) {
			found[key] = reaches
		}
	}
	for key, reaches := range found {
		name, param, _ := strings.Cut(key, " ")
		if param != "any" {
			reaches = slices.DeleteFunc(reaches, func(r string) bool { return slices.Contains(found[name+" any"], r) })
		}
		if slices.Sort(reaches); !slices.Equal(reaches, table[key]) {
			t.Errorf("%s reaches %v, and the table has %v", key, reaches, table[key])
		}
	}
	for key, reaches := range table {
		if !strings.HasSuffix(key, " *") && found[key] == nil {
			t.Errorf("%s no longer asks for %v", key, reaches)
		}
	}
	t.Logf("%d probes", len(probes))
}

// key names the parameter as the table does; any is what all calls of the syscall reach, as they are tried here.
func (p probe) key() string { return string(p.Type) + " " + cmp.Or(p.Param, "any") }

// sweep lets the model make probes, and returns what their approval-requests name, by parameters.
func (p *puppet) sweep(how, settings string, probes []probe) map[string][]string {
	p.t.Helper()
	found := map[string][]string{}
	for i, v := range p.tryAll(how, settings, probes, direct) {
		one := probes[i]
		s, _ := p.d.Kernel().Registry().Lookup(one.Type)
		if v.asked && strings.Contains(v.rule, "reaching") && len(v.named) == 0 && len(s.Reaches) == 0 && one.Type != kernel.ThroughType {
			p.t.Errorf("%v: the approval-request doesn't name what is reached: %v", one, v)
		}
		for _, to := range v.named {
			if to.Target == "" {
				p.t.Errorf("%v: %v has no target", one, v)
			}
			if r := string(to.Reach); !slices.Contains(found[one.key()], r) {
				found[one.key()] = append(found[one.key()], r)
			}
		}
	}
	return found
}
