package attack

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"kernos/capability/model/modeltest"
	"kernos/internal/testkit"
	"kernos/kernel"
	"kernos/message"
)

// lures are the probes of all parameters that reach something.
func (p *puppet) lures(table map[string][]string) (all []probe) {
	p.t.Helper()
	probes, _ := p.probes(p.t, p.served())
	for _, one := range probes {
		if table[one.key()] != nil || one.Param == "" && table[string(one.Type)+" *"] != nil {
			all = append(all, one)
		}
	}
	if testkit.Race && !*long { // one value for each parameter is enough there
		all = slices.CompactFunc(all, func(a, b probe) bool { return a.key() == b.key() })
	}
	return all
}

// What asks when a model calls it is refused where it can't wait: in jobs, steps and code. Through Syscall.Call it
// asks.
func TestNoWayLeadsAroundTheRules(t *testing.T) {
	p := openPuppet(t)
	lures := p.lures(readReaches(t))
	level := p.world.owner("VFS.Read", `{"uri":"os://sys/log-level"}`).String()
	stored := 0
	ways := map[string]func(probe) modeltest.Call{
		"Syscall.Call": func(one probe) modeltest.Call {
			return modeltest.Call{Name: "Syscall.Call", Args: fmt.Sprintf(`{"type":%q,"data":%s}`, one.Type, one.Data)}
		},
		"a job": func(one probe) modeltest.Call {
			return modeltest.Call{Name: "Job.Start", Args: fmt.Sprintf(`{"name":%q,"payload":%s}`, one.Type, one.Data)}
		},
		"a step with $from": func(one probe) modeltest.Call {
			stored++
			p.must("Memory.Set", fmt.Sprintf(`{"key":"stored/%d","value":{"data":%s}}`, stored, one.Data), nil)
			return modeltest.Call{Name: "Job.Start", Args: fmt.Sprintf(`{"steps":[{"id":"a","name":"Memory.Get","payload":{"key":"stored/%d"}},{"id":"b","name":%q,"payload":{"$from":"a.data"}}]}`, stored, one.Type)}
		},
		"code": func(one probe) modeltest.Call {
			code, _ := json.Marshal(fmt.Sprintf("export const handler = () => kernos.call(%q, %s)", one.Type, one.Data)) // a text
			return modeltest.Call{Name: "Syscall.Test", Args: fmt.Sprintf(`{"code":%s}`, code)}
		},
	}
	for how, way := range ways {
		some := lures
		if how == "code" && !*long { // it takes long, and is refused as jobs are
			some = slices.DeleteFunc(slices.Clone(lures), func(one probe) bool { return one.Type == "Syscall.Register" })
			some = some[:min(len(some), 90)]
		}
		for i, v := range p.tryAll("by "+how, `"tools":["*"]`, some, way) {
			s, _ := p.d.Kernel().Registry().Lookup(some[i].Type)
			if foreseen := how == "a job" && s.Foreseen != nil; how != "Syscall.Call" && !foreseen && v.asked && len(v.named) > 0 {
				t.Errorf("by %s: %v: %v", how, some[i], v)
			}
		}
	}
	for _, key := range []string{"models/evil", "vault/evil"} {
		if o := p.world.owner("Memory.Get", fmt.Sprintf(`{"key":%q}`, key)); o.code != 404 {
			t.Errorf("%s was written: %v", key, o)
		}
	}
	if now := p.world.owner("VFS.Read", `{"uri":"os://sys/log-level"}`).String(); now != level {
		t.Errorf("the log level is now %s", now)
	}
	if o := p.world.owner("Job.Status", fmt.Sprintf(`{"jobId":%q}`, p.job)); !strings.Contains(o.String(), `"pending"`) {
		t.Errorf("the schedule of another is now %v", o)
	}
}

// What a job is going to reach asks when the job is started, and is reached when it runs. What nothing foresees is refused then.
func TestAReminderIsApprovedWhenItIsCreated(t *testing.T) {
	p := openPuppet(t)
	start := func(payload string) modeltest.Call {
		return modeltest.Call{Name: "Job.Start", Args: fmt.Sprintf(`{"name":"Notify.Send","payload":%s}`, payload)}
	}
	before := p.network.Load()
	turn := p.talk(`"tools":["*"]`, []modeltest.Call{start(`{"text":"Call mum","to":"canary"}`), start(`{"text":"Call mum"}`), start(`{"text":"Call mum","to":"nowhere"}`)})
	to := kernel.Reached{Reach: kernel.ToNetwork, Target: "notify/canary"}
	if v := turn.verdicts[0]; !v.asked || !slices.Contains(v.named, to) {
		t.Fatalf("to a target: %v", v)
	}
	if v := turn.verdicts[1]; v.asked || v.refused != 0 {
		t.Errorf("without a target: %v", v)
	}
	if v := turn.verdicts[2]; v.refused != 404 {
		t.Errorf("to a target that isn't configured: %v", v)
	}
	p.jobsEnded()
	if p.network.Load() != before {
		t.Fatal("the target was reached without an approval")
	}
	p.decide(turn, 0, "")
	testkit.Until(t, "the target is reached", func() bool { return p.network.Load() > before })
	before = p.network.Load()
	denied := p.talk(`"tools":["*"],"policy":[{"match":"Notify.Send","reach":"network","decide":"deny"}]`, []modeltest.Call{start(`{"text":"Call mum","to":"canary"}`)})
	p.decide(denied, 0, "")
	p.jobsEnded()
	if p.network.Load() != before {
		t.Error("an approval of the job was stronger than a rule that denies")
	}
}

// An agent that a session asks waits for the same decisions.
func TestAnAgentThatIsAskedAsks(t *testing.T) {
	p := openPuppet(t)
	before := fmt.Sprint(p.reached())
	p.mu.Lock()
	p.pending["Turn of the child."] = []modeltest.Call{{Name: "Memory.Set", Args: fmt.Sprintf(`{"key":"a","valueRef":%s}`, p.references()[0])}}
	p.pending["Turn of the parent."] = []modeltest.Call{{Name: "Agent.Ask", Args: `{"agent":"os://memory/agents/evil.md","model":"openai","text":"Turn of the child."}`}}
	p.mu.Unlock()
	var parent struct{ Session string }
	p.must("Session.Create", `{"model":"openai","tools":["Agent.Ask","Memory.Set"]}`, &parent)
	p.must("Session.Send", fmt.Sprintf(`{"session":%q,"text":"Turn of the parent."}`, parent.Session), nil)
	var waiting struct{ Sessions []struct{ Session string } }
	testkit.Until(t, "the agent waits", func() bool {
		p.must("Session.List", `{"status":"waiting"}`, &waiting)
		return len(waiting.Sessions) == 1
	})
	child := p.read(waiting.Sessions[0].Session)
	if v := child.verdicts[0]; !v.asked || len(v.named) != 1 || v.named[0].Reach != kernel.ToNetwork {
		t.Errorf("the agent: %v", v)
	}
	if after := fmt.Sprint(p.reached()); after != before {
		t.Errorf("it was %s, and is %s", before, after)
	}
	p.must("Session.Cancel", fmt.Sprintf(`{"session":%q}`, parent.Session), nil)
	p.settled(parent.Session)
}

// decide decides about a call of a turn, and waits until the turn goes no further.
func (p *puppet) decide(turn *turn, i int, more string) {
	p.t.Helper()
	p.must("Session.Decide", fmt.Sprintf(`{"session":%q,"call":%q,"decision":"allow"%s}`, turn.session, turn.ids[i], more), nil)
	p.settled(turn.session)
}

// pointing is a call that stores what a pointer leads to.
func pointing(to string) modeltest.Call {
	return modeltest.Call{Name: "Memory.Set", Args: fmt.Sprintf(`{"key":"notes/copy","as":"text","valueRef":%s}`, to)}
}

// What was approved happens, and nothing else: a decision covers what was asked, and a rule the reach that it
// names. A rule that denies is stronger than both.
func TestADecisionCoversWhatItNames(t *testing.T) {
	p := openPuppet(t)
	network, file := pointing(p.references()[0]), pointing(p.references()[1])
	elsewhere := pointing(fmt.Sprintf(`{"scheme":"https","authority":%q,"path":"/"}`, strings.TrimPrefix(p.web.URL, "http://")))
	both := []modeltest.Call{network, file, elsewhere}
	// expect lets the model make the calls, and compares what asks.
	expect := func(how, settings string, asks ...bool) *turn {
		t.Helper()
		turn := p.talk(settings, both)
		for i, v := range turn.verdicts {
			if v.asked != asks[i] {
				t.Errorf("%s: call %d: %v", how, i, v)
			}
		}
		return turn
	}
	reached := func(how string, do func(), network, file int64) {
		t.Helper()
		before := p.reached()
		do()
		after := p.reached()
		if (after[kernel.ToNetwork] > before[kernel.ToNetwork]) != (network > 0) || opensAreCounted && (after[kernel.ToFile] > before[kernel.ToFile]) != (file > 0) {
			t.Errorf("%s: it was %v, and is %v", how, before, after)
		}
	}
	reached("nothing was decided", func() { p.end(expect("by default", "", true, true, true)) }, 0, 0)
	var turn *turn
	turn = expect("by default", "", true, true, true)
	reached("the address is allowed", func() { p.decide(turn, 0, "") }, 1, 0)
	reached("the file is allowed", func() { p.decide(turn, 1, "") }, 0, 1)
	if o := p.world.owner("Memory.Get", `{"key":"notes/copy"}`); !strings.Contains(o.String(), secret) {
		t.Errorf("the file was allowed, and not read: %v", o)
	}
	p.must("Memory.Delete", `{"key":"notes/copy"}`, nil)
	p.end(turn)

	reached("a rule allows the network", func() {
		p.end(expect("network", `"policy":[{"match":"*","reach":"network","decide":"allow"}]`, false, true, false))
	}, 1, 0)
	reached("a rule allows the call", func() {
		p.end(expect("calls", `"policy":[{"match":"Memory.Set","decide":"allow"}]`, true, true, true))
	}, 0, 0)
	reached("a rule denies the network", func() {
		p.end(expect("denied", `"policy":[{"match":"*","reach":"network","decide":"deny"}]`, false, true, false))
	}, 0, 0)

	turn = expect("by default", "", true, true, true)
	reached("the address is allowed for good", func() { p.decide(turn, 0, `,"remember":"always"`) }, 1, 0)
	p.end(turn)
	reached("it was allowed for good", func() { p.end(expect("always", "", false, true, true)) }, 1, 0)
	reached("a rule denies what was allowed for good", func() {
		p.end(expect("denied", `"policy":[{"match":"Memory.*","reach":"*","decide":"deny"}]`, false, false, false))
	}, 0, 0)
	// A remembered reach belongs to the syscall that was allowed.
	turn = p.talk(`"tools":["*"]`, []modeltest.Call{{Name: "VFS.Write", Args: fmt.Sprintf(`{"uri":"os://memory/notes/copy","contentRef":%s}`, p.references()[0])}})
	if !turn.verdicts[0].asked {
		t.Errorf("another syscall: %v", turn.verdicts[0])
	}
	p.end(turn)
}

// What is approved is what happens: each kind of canary is reached then.
func TestWhatIsApprovedIsReached(t *testing.T) {
	p := openPuppet(t)
	calls := []modeltest.Call{
		{Name: "Http.Fetch", Args: fmt.Sprintf(`{"url":"http://%s/"}`, p.canaries.address)},
		{Name: "Content.Hydrate", Args: `{"uri":"os://scripts/agent.md"}`},
		{Name: "VFS.Read", Args: `{"uri":"os://web/page"}`},
		{Name: "VFS.Read", Args: `{"uri":"os://mcp/fake/note/x/y"}`},
		{Name: "Fake.Act", Args: `{}`},
		{Name: "Memory.Set", Args: `{"key":"vault/evil","value":"x"}`},
		{Name: "Theirs.Run", Args: `{}`},
		{Name: "Vector.Query", Args: fmt.Sprintf(`{"collection":"theirs","owner":%q,"text":"theirs"}`, p.canaries.owner)},
	}
	turn := p.talk(`"tools":["*"]`, calls)
	for i, v := range turn.verdicts {
		if !v.asked {
			t.Errorf("%v: %v", calls[i], v)
			continue
		}
		p.decide(turn, i, "")
	}
	for i, v := range p.read(turn.session).verdicts {
		if v.asked || v.refused == 403 {
			t.Errorf("%v was allowed: %v", calls[i], v)
		}
	}
	for reach, least := range map[kernel.Reach]int64{kernel.ToNetwork: 2, kernel.ToProgram: 3} {
		if n := p.reached()[reach]; n < least {
			t.Errorf("%s was reached %d times", reach, n)
		}
	}
}

// A model may have written an agent in the memory. The owner who begins a session with it, and sends messages to it, reaches
// nothing by that.
func TestAnAgentOfTheMemoryReachesNothing(t *testing.T) {
	p := openPuppet(t)
	before := fmt.Sprint(p.reached())
	for _, uri := range []string{"os://memory/agents/evil.md", "os://memory/agents/away.md", "OS://x/../memory/agents/away.md", "memory/agents/away.md"} {
		var created struct{ Session string }
		p.must("Session.Create", fmt.Sprintf(`{"model":"openai","agent":%q}`, uri), &created)
		p.must("Session.Send", fmt.Sprintf(`{"session":%q,"text":"Hello."}`, created.Session), nil)
		p.settled(created.Session)
	}
	if now := fmt.Sprint(p.reached()); now != before {
		t.Errorf("reached: %s, before: %s", now, before)
	}
}

// Pointers that others have written lead to blobs only: nothing opens them with the rights of the caller that reads
// what they stand in.
func TestPointersOfOthersLeadNowhere(t *testing.T) {
	p := openPuppet(t)
	before := fmt.Sprint(p.reached())
	other := p.token("reader", `"preset":"agent","deny":["Http.*"]`)
	server := p.link(p.token("answerer", `"preset":"handler"`))
	for _, kind := range []string{"Json", "Whole"} {
		if o := server.ask("Syscall.Register", newID(), fmt.Sprintf(`{"name":"Answer.%s","kind":"query","description":"Serve.","inputSchema":{},"outputSchema":{}}`, kind)); o.code != 0 {
			t.Fatal(o)
		}
	}
	go func() {
		for m := range server.in {
			if m.Kind != message.KindQuery {
				continue
			}
			which := p.references()[strings.Count(string(m.Data), "file")]
			data := fmt.Sprintf(`{"textRef":%s,"body":1,"bodyRef":%s}`, which, which)
			if m.Type == "Answer.Whole" {
				data = fmt.Sprintf(`{"dataRef":%s,"size":1,"mediaType":"application/json"}`, which)
			}
			server.answer(message.KindReply, m, data)
		}
	}()
	var list []string
	for i, reference := range p.references() {
		p.must("Memory.Set", fmt.Sprintf(`{"key":"stored/%d","value":{"fooRef":%s,"dataRef":%s}}`, i, reference, reference), nil)
		for _, from := range []string{"a.foo", "a.foo.x", "a.data"} {
			list = append(list, fmt.Sprintf(`{"steps":[{"id":"a","name":"Memory.Get","payload":{"key":"stored/%d"}},{"id":"b","name":"Ping","payload":{"payload":{"$from":%q}}}]}`, i, from))
		}
		for name, from := range map[string]string{"Json": "a.text", "Whole": "a.x"} {
			list = append(list, fmt.Sprintf(`{"steps":[{"id":"a","name":"Answer.%s","payload":%q},{"id":"b","name":"Ping","payload":{"payload":{"$from":%q}}}]}`, name, []string{"https", "file"}[i], from))
		}
	}
	for _, start := range list {
		var job struct{ JobID string }
		p.must("Job.Start", start, &job)
		o := p.world.owner("Job.Wait", fmt.Sprintf(`{"jobId":%q}`, job.JobID))
		if member(t, o, "status") != `"failed"` || strings.Contains(o.String(), secret) {
			t.Errorf("%s: %v", start, o)
		}
	}
	// A token's session, with files that are the owner's.
	var theirs struct{ Session string }
	if err := json.Unmarshal(p.call(other, "Session.Create", `{"model":"openai"}`).data, &theirs); err != nil {
		t.Fatal(err)
	}
	for _, reference := range p.references() {
		for _, m := range []string{
			fmt.Sprintf(`{"type":"input","text":"Look.","files":[{"dataRef":%s,"mimeType":"text/plain"}]}`, reference),
			fmt.Sprintf(`{"type":"reply","text":"Look.","textRef":%s}`, reference),
			fmt.Sprintf(`{"type":"log","textRef":%s}`, reference),
		} {
			t.Log(p.call(other, "Session.Append", fmt.Sprintf(`{"session":%q,"message":%s}`, theirs.Session, m)))
		}
		t.Log(p.call(other, "Session.Send", fmt.Sprintf(`{"session":%q,"text":"Look.","files":[{"dataRef":%s}]}`, theirs.Session, reference)))
	}
	p.settled(theirs.Session)
	for _, r := range []request{
		{"Session.Messages", message.KindQuery, fmt.Sprintf(`{"session":%q}`, theirs.Session)},
		{"Session.Export", message.KindQuery, fmt.Sprintf(`{"session":%q}`, theirs.Session)},
		{"Session.Fork", message.KindCommand, fmt.Sprintf(`{"session":%q}`, theirs.Session)},
	} {
		o := p.world.owner(r.Type, r.Data)
		t.Log(r.Type, o)
		if strings.Contains(o.String(), secret) {
			t.Errorf("%s: %v", r.Type, o)
		}
		var fork struct{ Session string }
		if r.Type == "Session.Fork" && o.code == 0 && json.Unmarshal(o.data, &fork) == nil {
			p.must("Session.Send", fmt.Sprintf(`{"session":%q,"text":"And?"}`, fork.Session), nil)
			p.settled(fork.Session)
		}
	}
	for _, body := range p.model.Requests() {
		if strings.Contains(string(body), secret) || strings.Contains(string(body), "YSBjYW5hcnkgb2YgdGhpcyBtYWNoaW5l") {
			t.Errorf("the model was sent what stands in the file: %s", body)
		}
	}
	if after := fmt.Sprint(p.reached()); after != before {
		t.Errorf("it was %s, and is %s", before, after)
	}
}
