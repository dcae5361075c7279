package history

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"kernos/journal"
	"kernos/kernel"
	"kernos/kernel/kerneltest"
	"kernos/message"
)

func TestSyscallsAnswer(t *testing.T) {
	k := kerneltest.Of(t, nil, Module(shop(t), nil))
	line := func(kind message.Kind, typ message.Type, data, lineage string) string {
		return said(kind, typ, data, lineage)
	}
	s1 := line("query", "Stock.Get", `{}`, "s1<o1@w")
	s2 := line("reply", "Stock.Get", `3`, "s2<s1@w")
	o1 := line("command", "Shop.Order", `{"item":"kernos"}`, "o1@w")
	q1 := line("query", "Stock.Get", `{}`, "q1@w")
	q2 := line("reply", "Stock.Get", `3`, "q2<q1@w")
	c2 := line("error", "Card.Charge", `{"code":402,"message":"Card declined"}`, "c2<c1@w")
	e1 := line("event", "Stock.Reserved", `{"left":2}`, "e1<o1@w")
	for _, c := range []struct {
		name       message.Type
		data, want string
	}{
		{"Message.Get", `{"id":"s1"}`, s1},
		{"Message.Get", `{"id":"nope"}`, "404 Message not found: nope"},
		{"Message.Get", `{"id":""}`, "422 Schema validation failed: id: expected a string that is not empty, got an empty string"},
		{"Message.List", `{"type":"Stock.Get"}`, `{"messages":[` + s1 + "," + s2 + "," + q1 + "," + q2 + `]}`},
		{"Message.List", `{"type":"Stock.*","kind":"event"}`, `{"messages":[` + e1 + `]}`},
		{"Message.List", `{"type":"*","causation":"s1"}`, `{"messages":[` + s2 + `]}`},
		{"Message.List", `{"type":["Stock.Reserved","*.Get"]}`, `{"messages":[` + s1 + "," + s2 + "," + e1 + "," + q1 + "," + q2 + `]}`},
		{"Message.List", `{"type":"Stock.Reserved, *.Get"}`, `{"messages":[` + s1 + "," + s2 + "," + e1 + "," + q1 + "," + q2 + `]}`},
		{"Message.List", `{"type":"*.Reserved"}`, `{"messages":[` + e1 + `]}`},
		{"Message.List", `{"type":["Absent.*"]}`, `{"messages":[]}`},
		{"Message.List", `{"code":402}`, `{"messages":[` + c2 + `]}`},
		{"Message.List", `{"code":402.0,"correlation":"w"}`, `{"messages":[` + c2 + `]}`},
		{"Message.List", `{"code":402,"correlationId":"x"}`, `{"messages":[]}`},
		{"Message.List", `{"type":"Stock.Get","limit":1}`, `{"messages":[` + s1 + `],"cursor":"YTI"}`},
		{"Message.List", `{"type":"Stock.Get","limit":2e0,"cursor":"YTI"}`, `{"messages":[` + s2 + "," + q1 + `],"cursor":"YTg"}`},
		{"Message.List", `{"type":"Stock.Get","limit":2,"cursor":"YTg"}`, `{"messages":[` + q2 + `]}`},
		{"Message.List", `{"type":"Stock.Get","limit":2,"order":"desc"}`, `{"messages":[` + q2 + "," + q1 + `],"cursor":"ZDg"}`},
		{"Message.List", `{"type":"Stock.Get","limit":2,"order":"desc","cursor":"ZDg"}`, `{"messages":[` + s2 + "," + s1 + `]}`},
		{"Message.List", `{"kind":"event","correlation":"w","records":true}`, `{"messages":[` + e1 + `],"records":[{"seq":4,"at":1004,"way":"within","principal":"owner"}]}`},
		{"Message.List", `{"type":"Stock.Get","since":3000,"until":"1970-01-01T00:00:03.001Z"}`, `{"messages":[` + q1 + `]}`},
		{"Message.List", `{"type":"Stock.Get","since":"3000","until":"3001"}`, `{"messages":[` + q1 + `]}`},
		{"Message.List", `{"type":"Stock.Get","until":"1970-01-01"}`, `{"messages":[` + s1 + "," + s2 + "," + q1 + "," + q2 + `]}`},
		{"Message.List", `{"since":"1h"}`, `{"messages":[]}`},
		{"Message.List", `{"since":"yesterday","until":"today 00:00"}`, `{"messages":[]}`},
		{"Message.List", `{"filter":"since:soon"}`, `422 Schema validation failed: filter: since: expected milliseconds since 1970, or a time such as 2h, yesterday or 2026-11-20T09:00, got "soon"`},
		{"Message.List", `{"since":"2.5d","until":"1w"}`, `{"messages":[]}`},
		{"Message.List", `{"type":"Mem*ry"}`, `422 Schema validation failed: type: expected a type such as Memory.Set, a domain such as Memory.*, an action such as *.Set, or *; got "Mem*ry"`},
		{"Message.List", `{"type":["Memory.Set","*.*"]}`, `422 Schema validation failed: type: expected a type such as Memory.Set, a domain such as Memory.*, an action such as *.Set, or *; got "*.*"`},
		{"Message.List", `{"type":"Memory.Set,"}`, `422 Schema validation failed: type: expected a type such as Memory.Set, a domain such as Memory.*, an action such as *.Set, or *; got ""`},
		{"Message.List", `{"type":[]}`, `422 Schema validation failed: type: expected at least one value, got an empty list; leave it out to get all`},
		{"Message.List", `{"type":["Memory.Set",1]}`, `422 Schema validation failed: type fits none of the forms that it may have (type: expected a string, got an array; or type[1]: expected a string, got the number 1)`},
		{"Message.List", `{"type":[null]}`, `422 Schema validation failed: type fits none of the forms that it may have (type: expected a string, got an array; or type[0]: expected a string, got null)`},
		{"Message.List", `{"type":["A.B"` + strings.Repeat(`,"A.B"`, 100) + `]}`, `422 Schema validation failed: type: expected at most 100 values, got 101`},
		{"Message.List", `{"type":5}`, `422 Schema validation failed: type fits none of the forms that it may have (type: expected a string, got the number 5; or type: expected an array, got the number 5)`},
		{"Message.List", `{"type":"memory.*"}`, `422 Schema validation failed: type: expected a type such as Memory.Set, a domain such as Memory.*, an action such as *.Set, or *; got "memory.*"`},
		{"Message.List", `{"since":"soon"}`, `422 Schema validation failed: since: expected milliseconds since 1970, or a time such as 2h, yesterday or 2026-11-20T09:00, got "soon"`},
		{"Message.List", `{"until":-1}`, `422 Schema validation failed: until: expected a number of at least 0, got the number -1`},
		{"Message.List", `{"since":"-1h"}`, `422 Schema validation failed: since: expected milliseconds since 1970, or a time such as 2h, yesterday or 2026-11-20T09:00, got "-1h"`},
		{"Message.List", `{"cursor":"ZDg"}`, `422 Invalid cursor: send the cursor of the previous reply with the same parameters, or none to start again`},
		{"Message.List", `{"cursor":"YSA4"}`, `422 Invalid cursor: send the cursor of the previous reply with the same parameters, or none to start again`},
		{"Message.List", `{"correlation":"a","correlationId":"b"}`, `422 Schema validation failed: correlation and correlationId are two names for one thing and differ; leave one out`},
		{"Message.Search", `{"query":"left"}`, `{"messages":[` + e1 + `],"scores":[0.3333],"why":[{}],"total":1}`},
		{"Message.Search", `{"query":"3","kind":"reply","limit":1}`, `{"messages":[` + s2 + `],"scores":[0.3333],"why":[{}],"total":2,"cursor":"czEgMTIgMTIgMzYgMA"}`},
		{"Message.Search", `{"query":"3","kind":"response","limit":1}`, `{"messages":[` + s2 + `],"scores":[0.3333],"why":[{}],"total":2,"cursor":"czEgMTIgMTIgMzYgMA"}`},
		{"Message.Search", `{"query":"3","kind":"reply","limit":1,"cursor":"czEgMTIgMTIgMzYgMA"}`, `{"messages":[` + q2 + `],"scores":[0.25],"why":[{}],"total":2}`},
		{"Message.Search", `{"query":"left","records":true}`, `{"messages":[` + e1 + `],"scores":[0.3333],"why":[{}],"total":1,"records":[{"seq":4,"at":1004,"way":"within","principal":"owner"}]}`},
		{"Message.Search", `{"query":"nothing of the kind"}`, `{"messages":[],"scores":[],"why":[],"total":0}`},
		{"Message.Search", `{"query":"  "}`, `422 Schema validation failed: query: expected words to search for, got only white space; Message.List lists messages without words`},
		{"Message.Search", `{"query":"a","cursor":"czE"}`, `422 Invalid cursor: send the cursor of the previous reply with the same parameters, or none to start again`},
		{"Message.Search", `{"query":"a","cursor":"czEgMSB4IDE"}`, `422 Invalid cursor: send the cursor of the previous reply with the same parameters, or none to start again`},
		{"Message.Search", `{"query":"a","cursor":"czEwMDAwIDEgMSAxIDA"}`, `422 Schema validation failed: cursor: a search returns its best 10000 messages only; add words, or narrow it with since, type or kind`},
		{"Event.Search", `{"query":"declined","limit":10}`, `{"events":[{"type":"error","name":"Card.Charge","payload":{"message":"Card declined","code":"INVALID_INPUT","details":{"status":402}},"metadata":{"id":"c2","timestamp":1735000000000,"correlation":"w","causation":"c1"}}],"scores":[0.3333],"why":[{}],"total":1}`},
		{"Event.Search", `{"query":"nothing of the kind","limit":10}`, `{"events":[],"scores":[],"why":[],"total":0}`},
		{"Message.Graph", `{"correlationId":"nope"}`, `404 Workflow not found: nope (no message and no job in the journal has this correlation or this id)`},
		{"Message.Graph", `{"correlationId":"x3","format":"tree"}`, `"▶ Other.Run  1970-01-01 00:00:03.002Z  x1\n├─ ◆ Other.Ran  +1ms  x2\n└─ ✓ reply  2ms  x3\n"`},
		{"Message.Graph", `{"correlationId":"x2","format":"tree"}`, `"▶ Other.Run  1970-01-01 00:00:03.002Z  x1\n├─ ◆ Other.Ran  +1ms  x2\n└─ ✓ reply  2ms  x3\n"`},
		{"Message.List", `{"kind":["error","event"],"type":"Stock.*,Card.*"}`, `{"messages":[` + e1 + "," + c2 + `]}`},
		{"Message.List", `{"kind":"error,event","type":"Stock.*,Card.*"}`, `{"messages":[` + e1 + "," + c2 + `]}`},
		{"Message.List", `{"code":[402,404]}`, `{"messages":[` + c2 + `]}`},
		{"Message.List", `{"id":"s1"}`, `{"messages":[` + s1 + `]}`},
		{"Message.List", `{"causation":"s…1"}`, `{"messages":[` + s2 + `]}`},
		{"Message.List", `{"id":"s1","around":true}`, `{"messages":[` + s1 + "," + o1 + "," + s2 + `]}`},
		{"Message.List", `{"id":"…s2","around":true}`, `{"messages":[` + s2 + "," + s1 + `]}`},
		{"Message.List", `{"around":true}`, `422 Schema validation failed: around: give the id of a message, and leave failed out`},
		{"Message.List", `{"id":"nope","around":true}`, `{"messages":[]}`},
		{"Message.Get", `{"id":"…s1"}`, s1},
		{"Message.Get", `{"id":"s…"}`, "422 The short id s… stands for s2 and for s1, and maybe for others; give the whole id"},
		{"Message.Get", `{"id":"nope…"}`, "404 Message not found: none of the latest 1000000 has an id like nope…; give the whole id"},
		{"Message.List", `{"kind":"errors"}`, `422 Schema validation failed: kind: expected command, query, event, reply or error, got "errors"`},
		{"Message.List", `{"code":[402,99]}`, `422 Schema validation failed: code: expected a whole number from 400 to 599, got 99`},
		{"Message.List", `{"principal":[]}`, `422 Schema validation failed: principal: expected at least one value, got an empty list; leave it out to get all`},
		{"Event.Graph", `{"correlationId":"x1","format":"tree"}`, `"▶ Other.Run  1970-01-01 00:00:03.002Z  x1\n├─ ◆ Other.Ran  +1ms  x2\n└─ ✓ reply  2ms  x3\n"`},
		{"Message.Graph", `{"correlationId":"x1","format":"json"}`, `{"nodes":[{"id":"x1","kind":"command","type":"Other.Run","seq":10,"at":3002,"timestamp":1735000000000,"principal":"owner"},{"id":"x2","kind":"event","type":"Other.Ran","seq":11,"at":3003,"timestamp":1735000000000,"principal":"owner"},{"id":"x3","kind":"reply","type":"Other.Run","seq":12,"at":3004,"timestamp":1735000000000,"duration":2,"principal":"owner"}],"edges":[{"from":"x1","to":"x2"},{"from":"x1","to":"x3"}],"roots":["x1"]}`},
		{"Message.Graph", `{"correlationId":"x1","format":"png"}`, `422 Schema validation failed: format: expected one of "mermaid", "json", "dot", "tree", got "png"`},
		{"Message.Stats", `{}`, `{"messages":12,"bytes":1234,"firstSeq":1,"firstAt":1000,"lastSeq":12,"lastAt":3004,"behind":1}`},
		{"Message.Watch", `{"after":1,"from":1}`, `422 Schema validation failed: after and from both set where to begin; leave one out`},
		{"Message.Replay", `{"correlationId":"s1"}`, `{"messages":9,"next":"` + aboutExecute + `"}`},
		{"Message.Replay", `{"correlationId":"x…3"}`, `{"messages":3,"next":"` + aboutExecute + `"}`},
		{"Message.Replay", `{"correlationId":"w","execute":true}`, `422 Schema validation failed: execute: running commands again changes things, which a query may not do; send Message.Replay with kind command (over JSON-RPC, "kind":"command" stands beside params)`},
		{"Message.Replay", `{"correlationId":"w","queries":true}`, `422 Schema validation failed: queries: nothing is run without execute; add execute, or leave queries out`},
		{"Event.Replay", `{"correlationId":"nope"}`, `404 Workflow not found: nope (no message and no job in the journal has this correlation or this id)`},
	} {
		_, got := kerneltest.Exchange(k, kerneltest.Query("ask", c.name, c.data))
		if text := answered(got); text != c.want || got.Type != c.name {
			t.Errorf("%s %s: got\n  %s, want\n  %s", c.name, c.data, text, c.want)
		}
		if s, _ := k.Registry().Lookup(c.name); got.Kind == message.KindReply && c.name != "Event.Search" {
			if err := s.Output.Validate(got.Data); err != nil {
				t.Errorf("%s %s: the answer does not fit its schema: %v", c.name, c.data, err)
			}
		}
	}
}

func TestMermaidIsTheDefault(t *testing.T) {
	_, got := kerneltest.Exchange(kerneltest.Of(t, nil, Module(shop(t), nil)), kerneltest.Query("ask", "Event.Graph", `{"correlationId":"w"}`))
	if !strings.HasPrefix(string(got.Data), `"graph TD\n  n1[`) {
		t.Errorf("got %s", got.Data)
	}
}

// What was recorded comes back byte for byte.
func TestMessagesComeBackAsTheyWere(t *testing.T) {
	j := new(memoryJournal)
	strange := said("command", "Test.Run", `{"z":1.0,"a":1e2,"s":"\u0041\/\ud83d\ude00","n":12345678901234567890}`, "a@w")
	j.add(entry(t, 1, kernel.In, strange))
	k := kerneltest.Of(t, nil, Module(j, nil))
	if _, got := kerneltest.Exchange(k, kerneltest.Query("ask", "Message.Get", `{"id":"a"}`)); string(got.Data) != strange {
		t.Errorf("Get: %s", got.Data)
	}
	if _, got := kerneltest.Exchange(k, kerneltest.Query("ask", "Message.List", `{}`)); string(got.Data) != `{"messages":[`+strange+`]}` {
		t.Errorf("List: %s", got.Data)
	}
	if events, _ := kerneltest.Exchange(k, kerneltest.Query("ask", "Message.Replay", `{"correlationId":"w"}`)); string(events[0].Data) != `{"seq":1,"at":1,"principal":"owner","message":`+strange+`}` {
		t.Errorf("Replay: %s", events[0].Data)
	}
}

func TestWhatIsMissingIsSaid(t *testing.T) {
	j := shop(t)
	j.dropped = journal.Dropped{Messages: 5, At: 900, Why: "age", Losses: journal.Losses{Lost: 2, LostSince: 1500, LostUntil: 1600}}
	k := kerneltest.Of(t, nil, Module(j, nil))
	for data, want := range map[string]string{
		`{"type":"None.Such"}`:              `{"messages":[],"dropped":{"messages":5,"until":900,"why":"age","lost":2,"lostSince":1500,"lostUntil":1600}}`,
		`{"type":"None.Such","since":901}`:  `{"messages":[],"dropped":{"messages":0,"lost":2,"lostSince":1500,"lostUntil":1600}}`,
		`{"type":"None.Such","until":1500}`: `{"messages":[],"dropped":{"messages":5,"until":900,"why":"age"}}`,
		`{"type":"None.Such","since":1601}`: `{"messages":[]}`,
	} {
		if _, got := kerneltest.Exchange(k, kerneltest.Query("ask", "Message.List", data)); string(got.Data) != want {
			t.Errorf("%s: got %s", data, got.Data)
		}
	}
	_, got := kerneltest.Exchange(k, kerneltest.Query("ask", "Message.Graph", `{"correlationId":"nope"}`))
	const want = "404 Workflow not found: nope (no message and no job in the journal has this correlation or this id; it has dropped the 5 messages that were recorded until 1970-01-01T00:00:00Z; 2 messages from 1970-01-01T00:00:01Z to 1970-01-01T00:00:01Z were not recorded because the store did not take them)"
	if text := answered(got); text != want {
		t.Errorf("got %s", text)
	}
}

func TestAJournalThatFailsIsAnError(t *testing.T) {
	j := shop(t)
	j.err = message.Errorf(503, "The store is busy")
	k := kerneltest.Of(t, nil, Module(j, nil))
	for name, data := range map[message.Type]string{
		"Message.Get": `{"id":"s1"}`, "Message.List": `{}`, "Message.Search": `{"query":"a"}`, "Message.Graph": `{"correlationId":"w"}`,
		"Message.Replay": `{"correlationId":"w"}`, "Message.Stats": `{}`, "Message.Watch": `{}`,
	} {
		if _, got := kerneltest.Exchange(k, kerneltest.Query("ask", name, data)); answered(got) != "503 The store is busy" {
			t.Errorf("%s: got %s", name, answered(got))
		}
	}
}

// A workflow is read a page at a time, and each of its messages once.
func TestLongWorkflowsAreReadByPages(t *testing.T) {
	j := new(memoryJournal)
	j.add(entry(t, 1, kernel.In, said("command", "Test.Run", `1`, "root")))
	const n = 3*pageSize + 7
	for i := range n {
		lineage := fmt.Sprintf("m%d<root@root", i)
		if i%5 == 0 {
			lineage = fmt.Sprintf("m%d<root", i) // an answer to a request without a workflow
		}
		j.add(entry(t, 1, kernel.Within, said("event", "Test.Ran", `1`, lineage)))
		j.add(entry(t, 1, kernel.Within, said("event", "Test.Ran", `1`, fmt.Sprintf("o%d<root@other", i))))
	}
	last := uint64(0)
	count := 0
	for e, err := range (reader{journal: j}).workflow(t.Context(), journal.Filter{Correlation: "root"}, false) {
		if err != nil || e.Seq <= last || e.Message.Metadata.Correlation == "other" {
			t.Fatalf("%v after %d: %v", e, last, err)
		}
		last = e.Seq
		count++
	}
	if count != n+1 {
		t.Errorf("got %d messages, want %d", count, n+1)
	}
	nodes, more, err := reader{journal: j}.readNodes(t.Context(), "root", nil, 10)
	if err != nil || len(nodes) != 10 || !more {
		t.Errorf("got %d, %v, %v", len(nodes), more, err)
	}
}

func TestReplaySendsAWorkflowInOrder(t *testing.T) {
	k := kerneltest.Of(t, nil, Module(shop(t), nil))
	events, got := kerneltest.Exchange(k, kerneltest.Query("ask", "Message.Replay", `{"correlationId":"w"}`))
	if string(got.Data) != `{"messages":9,"next":"`+aboutExecute+`"}` || len(events) != 9 {
		t.Fatalf("got %d events and %s", len(events), got.Data)
	}
	if want := `{"seq":2,"at":1001,"principal":"owner","message":` + said("query", "Stock.Get", `{}`, "s1<o1@w") + `}`; string(events[1].Data) != want || events[1].Type != "Message.Replayed" {
		t.Errorf("got %s %s", events[1].Type, events[1].Data)
	}
	events, got = kerneltest.Exchange(k, kerneltest.Query("ask", "Event.Replay", `{"correlationId":"w","limit":2}`))
	if string(got.Data) != `{"messages":2,"more":true}` || len(events) != 3 || events[0].Type != kernel.DeprecatedEvent || events[1].Type != "Event.Replayed" {
		t.Errorf("got %d events and %s", len(events), got.Data)
	}
	// An older root does not name its workflow, and neither does its answer.
	events, _ = kerneltest.Exchange(k, kerneltest.Query("ask", "Message.Replay", `{"correlationId":"x1"}`))
	if len(events) != 3 {
		t.Errorf("got %d events", len(events))
	}
}

// counter is a syscall that gives another answer every time.
func counter(name message.Type, seen *[]message.Message) kernel.Syscall {
	n := 0
	return kernel.Syscall{
		Definition: kernel.Definition{Type: name, Kind: message.KindCommand, Summary: "Count.", Input: anySchema(), Output: anySchema()},
		Handler: func(_ context.Context, m message.Message, emit kernel.Emit) {
			*seen = append(*seen, m.Clone())
			n++
			emit(m.Reply(fmt.Appendf(nil, `{"n":%d}`, n)))
		},
	}
}

func TestReplayRunsCommandsAgain(t *testing.T) {
	j := new(memoryJournal)
	redacted := entry(t, 5, kernel.In, said("command", "Test.Count", kernel.RedactedData, "d@w"))
	redacted.Redacted = true
	refused := entry(t, 6, kernel.In, said("command", "Test.Count", kernel.RefusedData, "e@w"))
	refused.Redacted = true
	omitted := entry(t, 7, kernel.Out, said("reply", "Test.Same", kernel.OmittedData, "g2<g@w"))
	omitted.Redacted = true
	j.add(
		entry(t, 1, kernel.In, said("command", "Test.Count", `{"a":1}`, "a@w")),
		entry(t, 1, kernel.Out, said("reply", "Test.Count", `{"n":1.0e0}`, "a2<a@w")),
		entry(t, 2, kernel.In, said("command", "Test.Count", `{"b":1}`, "b@w")),
		entry(t, 2, kernel.Within, said("command", "Test.Count", `{"nested":1}`, "n<b@w")),
		entry(t, 2, kernel.Within, said("reply", "Test.Count", `{"n":0}`, "n2<n@w")),
		entry(t, 2, kernel.Out, said("reply", "Test.Count", `{"n":7}`, "b2<b@w")),
		entry(t, 3, kernel.In, said("query", "Test.Same", `1`, "c@w")),
		entry(t, 3, kernel.Out, said("reply", "Test.Same", ` 1`, "c2<c@w")),
		entry(t, 4, kernel.In, said("command", "Message.Replay", `{"correlationId":"w","execute":true}`, "r@w")),
		redacted, refused,
		entry(t, 7, kernel.In, said("command", "Test.Fail", `1`, "f@w")),
		entry(t, 7, kernel.Out, said("error", "Test.Fail", `{"message":"No","code":409}`, "f2<f@w")),
		entry(t, 7, kernel.In, said("command", "Test.Same", `2`, "g@w")),
		omitted,
		entry(t, 8, kernel.In, said("command", "Test.Gone", `1`, "h@w")),
		entry(t, 9, kernel.In, said("event", "Test.Seen", `1`, "i@w")),
		entry(t, 9, kernel.In, said("command", "Test.Count", `3`, "u@w")), // never answered
	)
	var seen []message.Message
	same := kernel.Syscall{
		Definition: kernel.Definition{Type: "Test.Same", Kind: message.KindQuery, Summary: "Give back.", Input: anySchema(), Output: anySchema()},
		Handler: func(_ context.Context, m message.Message, emit kernel.Emit) {
			seen = append(seen, m.Clone())
			emit(m.Reply(m.Data))
		},
	}
	failing := kernel.Command(kernel.Definition{Type: "Test.Fail", Summary: "Fail."}, func(context.Context, int) (int, error) {
		return 0, message.Errorf(409, "No")
	})
	k := kerneltest.Of(t, nil, Module(j, nil), kerneltest.Module("test", counter("Test.Count", &seen), same, failing))
	_, got := kerneltest.Exchange(k, kerneltest.Command("ask", "Message.Replay", `{"correlationId":"w","execute":true,"queries":true}`))
	var report struct {
		Correlation             string
		Commands, Queries, Same int
		Different, Skipped      json.RawMessage
	}
	if err := json.Unmarshal(got.Data, &report); err != nil {
		t.Fatalf("%v: %s", err, answered(got))
	}
	if s, _ := k.Registry().Lookup("Message.Replay"); s.Output.Validate(got.Data) != nil {
		t.Errorf("the answer does not fit its schema: %v", s.Output.Validate(got.Data))
	}
	// a is as it was, b is not, f fails as it did, h is not there any more, u had no answer.
	if report.Commands != 5 || report.Queries != 1 || report.Same != 3 {
		t.Errorf("got %s", got.Data)
	}
	const gone = `No handler for Test.Gone`
	different := `[{"id":"b","type":"Test.Count","was":{"kind":"reply","data":{"n":7}},"now":{"kind":"reply","data":{"n":2}}},` +
		`{"id":"h","type":"Test.Gone","was":{"kind":"none"},"now":{"kind":"error","data":{"code":404,"message":"` + gone
	if !strings.HasPrefix(string(report.Different), different) ||
		!strings.HasSuffix(string(report.Different), `{"id":"u","type":"Test.Count","was":{"kind":"none"},"now":{"kind":"reply","data":{"n":3}}}]`) {
		t.Errorf("different: %s", report.Different)
	}
	const skips = `[{"id":"r","type":"Message.Replay","why":"It is a replay itself"},` +
		`{"id":"d","type":"Test.Count","why":"It has secrets that are not in the journal"},` +
		`{"id":"e","type":"Test.Count","why":"It was refused, and its data is not in the journal"},` +
		`{"id":"g","type":"Test.Same","why":"Its reply is not in the journal as it was sent, so there is nothing to compare with"}]`
	if string(report.Skipped) != skips {
		t.Errorf("skipped: %s", report.Skipped)
	}
	if len(seen) != 4 || report.Correlation == "w" || !strings.HasPrefix(report.Correlation, "replay-") {
		t.Fatalf("ran %d as %s", len(seen), report.Correlation)
	}
	for _, m := range seen {
		if m.Metadata.Correlation != report.Correlation || m.Metadata.Causation != "ask" {
			t.Errorf("ran with %+v", m.Metadata)
		}
	}
	if string(seen[0].Data) != `{"a":1}` || string(seen[1].Data) != `{"b":1}` || string(seen[2].Data) != `1` {
		t.Errorf("ran %v", seen)
	}

	// Without queries they are skipped, and the limit counts requests.
	seen = nil
	_, got = kerneltest.Exchange(k, kerneltest.Command("ask", "Message.Replay", `{"correlationId":"w","execute":true,"limit":3}`))
	if !strings.Contains(string(got.Data), `"commands":2,"same":0,`) || !strings.HasSuffix(string(got.Data), `"skipped":[{"id":"c","type":"Test.Same","why":"It is a query; ask for queries to run them again"}],"more":true}`) || len(seen) != 2 {
		t.Errorf("got %s", got.Data)
	}
}

// What concerns a connection or the life of the kernel is not run again, by whatever name it
// was called, and neither is what has no end.
func TestReplayLeavesConnectionsAndTheKernelAlone(t *testing.T) {
	j := new(memoryJournal)
	j.add(
		entry(t, 1, kernel.In, said("command", "Test.Count", `1`, "a@w")),
		entry(t, 1, kernel.Out, said("reply", "Test.Count", `{"n":1}`, "a2<a@w")),
		entry(t, 2, kernel.In, said("command", "Test.Join", `1`, "b@w")),
		entry(t, 2, kernel.Out, said("reply", "Test.Join", `{"n":1}`, "b2<b@w")),
		entry(t, 3, kernel.In, said("command", "Older.Join", `1`, "c@w")),
		entry(t, 4, kernel.In, said("command", "Message.Watch", `{"after":0,"limit":1}`, "d@w")),
		entry(t, 5, kernel.In, said("query", "Message.Watch", `{"after":0,"limit":1}`, "e@w")),
	)
	var counted, joined []message.Message
	join := counter("Test.Join", &joined)
	join.Aliases, join.Effect = []message.Type{"Older.Join"}, kernel.Transient
	k := kerneltest.Of(t, nil, Module(j, nil), kerneltest.Module("test", counter("Test.Count", &counted), join))
	_, got := kerneltest.Exchange(k, kerneltest.Command("ask", "Message.Replay", `{"correlationId":"w","execute":true,"queries":true}`))
	const want = `"commands":1,"queries":0,"same":1,"different":[],"skipped":[` +
		`{"id":"b","type":"Test.Join","why":"It concerns a connection, or the kernel as a process"},` +
		`{"id":"c","type":"Older.Join","why":"It concerns a connection, or the kernel as a process"},` +
		`{"id":"d","type":"Message.Watch","why":"It runs until it is cancelled"},` +
		`{"id":"e","type":"Message.Watch","why":"It runs until it is cancelled"}]}`
	if !strings.HasSuffix(string(got.Data), want) || len(counted) != 1 || len(joined) != 0 {
		t.Errorf("ran %d and %d: %s", len(counted), len(joined), answered(got))
	}
}

func TestSameJSON(t *testing.T) {
	for _, c := range []struct {
		a, b string
		same bool
	}{
		{`{"a":1,"b":[true,null]}`, ` { "b" : [ true , null ] , "a" : 1.0 }`, true},
		{`1e2`, `100`, true},
		{`-0.0`, `0`, true},
		{`1.50`, `15e-1`, true},
		{`100e-2`, `1`, true},
		{`1e999999999`, `10e999999998`, true},
		{`1e99999999999999999999`, `1e99999999999999999999`, true},
		{`12345678901234567890`, `12345678901234567891`, false},
		{`"\u0041\/"`, `"A/"`, true},
		{`"a"`, `"b"`, false},
		{`[1,2]`, `[2,1]`, false},
		{`[]`, `[null]`, false},
		{`{}`, `[]`, false},
		{`{"a":1}`, `{"a":1,"b":null}`, false},
		{`1`, `"1"`, false},
		{`1`, `-1`, false},
		{`{"\u0061":1}`, `{"a":1}`, true},
		{`null`, `false`, false},
	} {
		if got := sameJSON(json.RawMessage(c.a), json.RawMessage(c.b)); got != c.same {
			t.Errorf("%s and %s: %v", c.a, c.b, got)
		}
	}
}

func TestWatchSendsWhatIsRecorded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := shop(t)
		k := kerneltest.Of(t, nil, Module(j, nil))
		ctx, cancel := context.WithCancel(t.Context())
		var got []string
		var outcome message.Message
		done := make(chan struct{})
		go func() {
			defer close(done)
			m := message.Message{Kind: message.KindQuery, Type: "Message.Watch", Data: json.RawMessage(`{"type":"Stock.*"}`), Metadata: message.Metadata{ID: "w", Timestamp: 1}}
			k.Handle(ctx, m, func(m message.Message) {
				if m.Kind.Answers() {
					outcome = m
				} else {
					got = append(got, string(m.Data))
				}
			})
		}()
		synctest.Wait()
		if len(got) != 0 {
			t.Errorf("a watch from now on began with %v", got)
		}
		one, two := said("event", "Stock.Filled", `1`, "f1"), said("event", "Stock.Filled", `2`, "f2")
		j.add(entry(t, 4000, kernel.In, one), entry(t, 4000, kernel.In, said("event", "Other.Ran", `1`, "f3")))
		synctest.Wait()
		time.Sleep(23 * time.Hour)
		j.add(entry(t, 4001, kernel.In, two))
		synctest.Wait()
		if want := []string{`{"seq":13,"at":4000,"principal":"owner","message":` + one + `}`, `{"seq":15,"at":4001,"principal":"owner","message":` + two + `}`}; fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("got %v", got)
		}
		cancel()
		<-done
		if e, err := message.ParseError(outcome.Data); err != nil || e.Code != 499 {
			t.Errorf("it ended with %s", outcome.Data)
		}
	})
}

func TestWatchGoesOnWhereItEnded(t *testing.T) {
	k := kerneltest.Of(t, nil, Module(shop(t), nil))
	var seqs []uint64
	for next := uint64(1); ; {
		events, got := kerneltest.Exchange(k, kerneltest.Query("ask", "Message.Watch", fmt.Sprintf(`{"from":%d,"limit":3,"correlation":"w"}`, next)))
		for _, m := range events {
			var e struct{ Seq uint64 }
			if err := json.Unmarshal(m.Data, &e); err != nil || m.Type != "Message.Recorded" {
				t.Fatalf("%v: %s %s", err, m.Type, m.Data)
			}
			seqs = append(seqs, e.Seq)
		}
		var reply struct{ Next, Messages uint64 }
		if err := json.Unmarshal(got.Data, &reply); err != nil || reply.Messages != 3 {
			t.Fatalf("%v: %s", err, answered(got))
		}
		if next = reply.Next; next > 9 {
			break
		}
	}
	if fmt.Sprint(seqs) != "[1 2 3 4 5 6 7 8 9]" {
		t.Errorf("got %v", seqs)
	}
	for data, want := range map[string]string{
		`{"after":7,"limit":1}`:           `{"next":9,"messages":1}`,
		`{"after":0,"limit":1}`:           `{"next":2,"messages":1}`,
		`{"from":0,"limit":1}`:            `{"next":2,"messages":1}`,
		`{"since":3000,"limit":1}`:        `{"next":9,"messages":1}`,
		`{"from":1,"code":502,"limit":1}`: `{"next":8,"messages":1}`,
	} {
		if _, got := kerneltest.Exchange(k, kerneltest.Query("ask", "Message.Watch", data)); string(got.Data) != want {
			t.Errorf("%s: got %s", data, answered(got))
		}
	}
}

// Callers decide from descriptions alone what to send.
func TestEveryFieldIsDescribed(t *testing.T) {
	type object struct {
		Description string
		Properties  map[string]json.RawMessage
		Items       json.RawMessage
		OneOf       []json.RawMessage
	}
	var check func(path string, text json.RawMessage)
	check = func(path string, text json.RawMessage) {
		var o object
		if err := json.Unmarshal(text, &o); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		for name, property := range o.Properties {
			var p object
			if err := json.Unmarshal(property, &p); err != nil || p.Description == "" {
				t.Errorf("%s.%s has no description: %v", path, name, err)
			}
			check(path+"."+name, property)
		}
		if o.Items != nil && string(o.Items) != "true" {
			check(path+"[]", o.Items)
		}
		for _, one := range o.OneOf {
			check(path, one)
		}
	}
	for _, s := range Module(new(memoryJournal), nil).Syscalls {
		if s.Answers != kernel.FromJournal || s.Kind != message.KindQuery {
			t.Errorf("%s must be a query that recalls", s.Type)
		}
		check(string(s.Type)+" input", s.Input.JSON())
		check(string(s.Type)+" output", s.Output.JSON())
	}
}

func TestAliasesAreInNoListing(t *testing.T) {
	k := kerneltest.Of(t, nil, Module(shop(t), nil))
	want := "[Message.Get Message.Graph Message.List Message.Replay Message.Search Message.Stats Message.Watch]"
	if got := fmt.Sprint(k.Registry().All().Types()); got != want {
		t.Errorf("got %s", got)
	}
}

// FuzzInput sends any input to every syscall: it answers, and with JSON.
func FuzzInput(f *testing.F) {
	for _, seed := range []string{
		`{}`, `{"id":"s1"}`, `{"correlationId":"w","format":"json"}`, `{"correlationId":"w","format":"tree","execute":true}`,
		`{"query":"a","cursor":"czEgMSAxIDE","limit":1}`, `{"since":"1h","until":5,"type":"Stock.*","kind":"error","code":402}`,
		`{"cursor":"YTE4NDQ2NzQ0MDczNzA5NTUxNjE1","order":"desc"}`, `{"since":1e999}`, `{"limit":1e2,"from":1}`, `{"since":"9999999999999999999d"}`,
		`{"after":9007199254740991,"limit":1}`, `{"since":"0000-01-01"}`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, data string) {
		if !json.Valid([]byte(data)) || strings.ContainsAny(data, "\n\r") {
			return
		}
		j := shop(t)
		k := kerneltest.Of(t, nil, Module(j, nil))
		ctx, cancel := context.WithCancel(t.Context())
		cancel() // a watch would last
		for _, name := range append(k.Registry().All().Types(), "Event.Search", "Event.Graph", "Event.Replay") {
			m := message.Message{Kind: message.KindQuery, Type: name, Data: json.RawMessage(data), Metadata: message.Metadata{ID: "ask", Timestamp: 1}}
			outcomes := 0
			k.Handle(ctx, m, func(m message.Message) {
				if m.Kind.Answers() {
					outcomes++
				}
				if !json.Valid(m.Data) {
					t.Errorf("%s %s: %s is no JSON", name, data, m.Data)
				}
				if e, err := message.ParseError(m.Data); m.Kind == message.KindError && (err != nil || e.Code == 500) {
					t.Errorf("%s %s: %s", name, data, m.Data)
				}
			})
			if outcomes != 1 {
				t.Errorf("%s %s: %d outcomes", name, data, outcomes)
			}
		}
	})
}

// FuzzSameJSON holds the comparison against that of decoded values.
func FuzzSameJSON(f *testing.F) {
	f.Add(`{"a":[1,2.0,"x"]}`, `{"a":[1.0,2,"\u0078"]}`)
	f.Add(`1e400`, `10e399`)
	f.Fuzz(func(t *testing.T, a, b string) {
		if !valid(a) || !valid(b) {
			return
		}
		ab, ba := sameJSON(json.RawMessage(a), json.RawMessage(b)), sameJSON(json.RawMessage(b), json.RawMessage(a))
		if ab != ba || !sameJSON(json.RawMessage(a), json.RawMessage(" "+a)) {
			t.Errorf("%s and %s: %v, %v", a, b, ab, ba)
		}
	})
}
