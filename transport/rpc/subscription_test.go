package rpc

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"kernos/internal/testkit"
	"kernos/kernel"
	"kernos/kernel/principal"
	"kernos/message"
)

// collector is a reader of a test.
type collector struct {
	items   chan Item
	flushed int
}

func newCollector() *collector { return &collector{items: make(chan Item, 1<<12)} }

func (c *collector) Item(i Item) {
	i.JSON = append(json.RawMessage(nil), i.JSON...)
	c.items <- i
}

func (c *collector) Flush() { c.flushed++ }

// next is the type and the number of the next item.
func (c *collector) next(t *testing.T) string {
	t.Helper()
	select {
	case i := <-c.items:
		var same item
		if err := json.Unmarshal(i.JSON, &same); err != nil || same.Type != i.Type || same.Seq != i.Seq {
			t.Errorf("%v: %s %d is %s", err, i.Type, i.Seq, i.JSON)
		}
		return fmt.Sprint(i.Type, " ", i.Seq)
	case <-time.After(testkit.Patience):
		t.Fatal("nothing came")
		return ""
	}
}

func (c *collector) expect(t *testing.T, want ...string) {
	t.Helper()
	for _, w := range want {
		if got := c.next(t); got != w {
			t.Fatalf("got %s, want %s", got, w)
		}
	}
}

// open makes a call, which is over when the test is.
func open(t *testing.T, s *Service, method, params string) (*Subscription, <-chan struct{}) {
	t.Helper()
	sub, err := s.Open(context.Background(), Call{Method: method, Params: json.RawMessage(params)})
	if err != nil {
		t.Fatal(err)
	}
	ran := make(chan struct{})
	go func() {
		defer close(ran)
		sub.Run()
	}()
	t.Cleanup(func() {
		sub.Leave()
		s.Close()
		soon(t, "it has run", ran)
	})
	return sub, ran
}

func soon(t *testing.T, what string, c <-chan struct{}) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(testkit.Patience):
		t.Fatal("it never came about that ", what)
	}
}

func TestSubscriptionGivesItemsInOrder(t *testing.T) {
	s := newService(t, nil)
	for _, one := range []struct{ method, params, want string }{
		{"note_get_all", "", "data done"},
		{"note_set", `{"key":"a"}`, "data done"},
		{"note_set", `["a","b"]`, "data done"},
		{"note_set", ` "a" `, "data done"},
		{"note_set", "", "guidance error done"},
		{"note_set", "[1,2,3,4]", "guidance error done"},
		{"service_hash", "", "data done"},
		{"service_schema", "[]", "data done"},
		{"service_module_schema", `["note"]`, "data done"},
		{"service_module_schema", "", "guidance error done"},
		{"service_unsubscribe", `["x-1"]`, "data done"},
		{"service_unsubscribe", "", "guidance error done"},
		{"no_such", "", "guidance error done"},
	} {
		sub, _ := open(t, s, one.method, one.params)
		c := newCollector()
		sub.Follow(c)
		soon(t, "it is over", sub.Over())
		sub.Leave()
		var got []string
		for len(c.items) > 0 {
			kind, _, _ := strings.Cut(c.next(t), " ")
			got = append(got, kind)
		}
		if line := strings.Join(got, " "); line != one.want || c.flushed == 0 || sub.st.method != one.method {
			t.Errorf("%s %s: got %s, want %s", one.method, one.params, line, one.want)
		}
	}
}

// A reader that has left comes back, here, there and over a connection, and gets what came
// after the last item that it saw.
func TestSubscriptionIsResumed(t *testing.T) {
	g := newGate()
	s := newService(t, nil, g.syscall("Test.Wait", message.KindQuery))
	first, ran := open(t, s, "test_wait", "")
	one := newCollector()
	first.Follow(one)
	g.steps <- "1"
	g.steps <- "2"
	one.expect(t, "data 1", "data 2")
	first.Leave()
	g.steps <- "3" // no peer reads it

	second, err := s.Resume(t.Context(), first.ID(), 1, "")
	if err != nil {
		t.Fatal(err)
	}
	if second.ID() != first.ID() || second.st.method != "test_wait" || second.Request() != first.Request() || second.Request() == "" {
		t.Errorf("it is another stream: %s %s %s", second.ID(), second.st.method, second.Request())
	}
	g.steps <- "4" // before it is followed
	two := newCollector()
	second.Follow(two)
	g.steps <- "5"
	two.expect(t, "data 2", "data 3", "data 4", "data 5")

	// Another connection takes it, without waiting for the reader to leave.
	c := dial(t, s)
	c.send(`{"jsonrpc":"2.0","id":1,"method":"service_resume","params":[%q,4]}`, first.ID())
	c.read()
	soon(t, "the reader is told", second.Over())
	second.Leave()
	if i := c.item(first.ID()); i.Seq != 5 {
		t.Errorf("got %+v", i)
	}
	third, err := s.Resume(t.Context(), first.ID(), 5, "")
	if err != nil {
		t.Fatal(err)
	}
	three := newCollector()
	third.Follow(three)
	close(g.steps)
	three.expect(t, "data 6", "done 7")
	soon(t, "it is over", third.Over())
	third.Leave()
	soon(t, "the call has ended", ran)
	if len(one.items)+len(two.items)+len(three.items) > 0 {
		t.Error("a connection got more than that")
	}
	// Done is kept too: who has not seen it may ask for it, and who has is told.
	fourth, err := s.Resume(t.Context(), first.ID(), 6, "")
	if err != nil {
		t.Fatal(err)
	}
	four := newCollector()
	fourth.Follow(four)
	four.expect(t, "done 7")
	fourth.Leave()
	if _, err := s.Resume(t.Context(), first.ID(), 7, ""); err != ErrAllCame {
		t.Errorf("got %v", err)
	}
}

func TestResumeSaysWhyNot(t *testing.T) {
	g := newGate()
	s := newService(t, &Options{KeepItems: 4}, g.syscall("Test.Wait", message.KindQuery))
	sub, _ := open(t, s, "test_wait", "")
	c := newCollector()
	sub.Follow(c)
	for range 20 {
		g.steps <- "0"
	}
	for range 20 {
		c.next(t)
	}
	for _, one := range []struct {
		id    string
		after int64
		code  int
	}{{"", 0, 410}, {"x-1", 0, 410}, {sub.ID() + "0", 0, 410}, {sub.ID(), 1, 410}, {sub.ID(), 21, 422}, {sub.ID(), -1, 422}} {
		_, err := s.Resume(t.Context(), one.id, one.after, "")
		if e, ok := err.(*message.Error); !ok || e.Code != one.code {
			t.Errorf("%q after %d: %v", one.id, one.after, err)
		}
	}
	g.steps <- "0" // and it goes on where it was
	c.expect(t, "data 21")
}

// Who leaves may come back for a while. Then a query is cancelled, and a command completed.
func TestSubscriptionsExpire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		query, command := newGate(), newGate()
		s := newService(t, &Options{KeepFor: time.Minute}, query.syscall("Test.Ask", message.KindQuery), command.syscall("Test.Do", message.KindCommand))
		asked, queried := open(t, s, "test_ask", "")
		did, commanded := open(t, s, "test_do", "")
		asked.Follow(newCollector())
		did.Follow(newCollector())
		asked.Leave()
		did.Leave()
		time.Sleep(59 * time.Second)
		again, err := s.Resume(t.Context(), asked.ID(), 0, "")
		if err != nil {
			t.Fatal(err)
		}
		again.Follow(newCollector())
		time.Sleep(59 * time.Second)
		again.Leave()
		time.Sleep(59 * time.Second)
		synctest.Wait()
		if len(query.cancelled)+len(command.cancelled) > 0 {
			t.Error("cancelled early")
		}
		time.Sleep(2 * time.Second)
		<-query.cancelled
		<-queried
		if len(command.cancelled) > 0 {
			t.Error("the command was cancelled")
		}
		close(command.steps)
		<-commanded
		if now := keptOf(s); now != (kept{}) {
			t.Errorf("%+v are kept", now)
		}
	})
}

// A stream that is ended is cancelled whatever it is, also before it has begun.
func TestSubscriptionIsEnded(t *testing.T) {
	g := newGate()
	s := newService(t, nil, g.syscall("Test.Do", message.KindCommand))
	sub, err := s.Open(context.Background(), Call{Method: "test_do"})
	if err != nil {
		t.Fatal(err)
	}
	if !s.Unsubscribe(principal.TheOwner(), sub.ID()) {
		t.Fatal("there is no such stream")
	}
	ran := make(chan struct{})
	go func() {
		defer close(ran)
		sub.Run()
	}()
	c := newCollector()
	sub.Follow(c) // it is told, although it came late
	c.expect(t, "error 1", "done 2")
	soon(t, "it is over", sub.Over())
	sub.Leave()
	soon(t, "it has run", ran)
	if s.Unsubscribe(principal.TheOwner(), sub.ID()) {
		t.Error("it is there still")
	}
	select {
	case g.steps <- "0":
		t.Error("it runs all the same")
	default:
	}

	other, ended := open(t, s, "test_do", "")
	c = newCollector()
	other.Follow(c)
	g.steps <- "1"
	c.expect(t, "data 1")
	if !s.Unsubscribe(principal.TheOwner(), other.ID()) {
		t.Fatal("there is no such stream")
	}
	c.expect(t, "error 2", "done 3")
	<-g.cancelled
	other.Leave()
	soon(t, "it has run", ended)
}

// When the context ends, so does the call, and the reader sees it.
func TestSubscriptionIsCut(t *testing.T) {
	g := newGate()
	s := newService(t, nil, g.syscall("Test.Do", message.KindCommand))
	ctx, cut := context.WithCancel(context.Background())
	sub, err := s.Open(ctx, Call{Method: "test_do"})
	if err != nil {
		t.Fatal(err)
	}
	ran := make(chan struct{})
	go func() {
		defer close(ran)
		sub.Run()
	}()
	c := newCollector()
	sub.Follow(c)
	g.steps <- "1"
	cut()
	c.expect(t, "data 1", "error 2", "done 3")
	sub.Leave()
	soon(t, "it has run", ran)
	s.Close()
	if _, err := s.Open(context.Background(), Call{Method: "test_do"}); err != ErrClosed {
		t.Errorf("got %v", err)
	}
}

// What a call says is what its items would say.
func TestOutcomes(t *testing.T) {
	fails := raw("Test.Fail", message.KindQuery, func(_ context.Context, m message.Message, emit kernel.Emit) {
		emit(m.Event(kernel.Progressed, []byte(`{"message":"soon"}`)))
		emit(m.Fail(message.Errorf(409, "Not now: %w", message.Errorf(404, "There is none"))))
	})
	s := newService(t, nil, fails, raw("Test.Large", message.KindQuery, func(_ context.Context, m message.Message, emit kernel.Emit) {
		emit(m.Reply([]byte(`"` + strings.Repeat("x", maxItem) + `"`)))
	}))
	for _, one := range []struct{ method, params, data, err, kind string }{
		{"note_set", `{"key":"a"}`, `{"key":"a"}`, "", ""},
		{"note_set", `[{"key":"a"}]`, `{"key":"a"}`, "", ""},
		{"note_set", `["a","b"]`, `{"key":"a","text":"b"}`, "", ""},
		{"note_set", `"a"`, `{"key":"a"}`, "", ""},
		{"memo_get_all", ``, `["a"]`, "", ""},
		{"memo_get_all", `[]`, `["a"]`, "", ""},
		{"test_large", ``, `"xxx`, "", ""}, // it need not be kept
		{"test_fail", ``, ``, `{"code":409,"message":"Not now","cause":{"code":404,"message":"There is none"}}`, ""},
		{"note_set", ``, ``, `{"code":422,"message":"Schema validation failed: missing required field: key (a string: Where the note lies)"}`, "invalid_params"},
		{"note_set", `[1,2,3,4]`, ``, `{"code":422,"message":"Invalid params: 4 values came, and there are 3 fields: key, text, tags"}`, "invalid_params"},
		{"note_sett", ``, ``, `{"code":404,"message":"Method not found: sett"}`, "method_not_found"},
		{"nite_set", ``, ``, `{"code":404,"message":"Module not found: nite"}`, "module_not_found"},
		{"service_unsubscribe", `["x-1"]`, `false`, "", ""},
	} {
		o, err := s.Call(t.Context(), Call{Method: one.method, Params: json.RawMessage(one.params)}, nil)
		if err != nil {
			t.Errorf("%s: %v", one.method, err)
			continue
		}
		var text string
		if o.Err != nil {
			text = string(o.Err.Append(nil))
		}
		if !strings.HasPrefix(string(o.Data), one.data) || (o.Data == nil) != (one.data == "") || text != one.err || o.ErrorKind() != one.kind {
			t.Errorf("%s %s: got %.100s, %s, %s", one.method, one.params, o.Data, text, o.Guidance)
		}
		if called := o.Request != ""; called != (one.kind == "" && one.method != "service_unsubscribe" || strings.Contains(one.err, "Schema")) {
			t.Errorf("%s %s: it got to the kernel: %t", one.method, one.params, called)
		}
	}
	for method, want := range map[string]string{
		"note_sett": `"available_methods":["get_all","set"],"method_schema":{`, "nite_set": `"suggested_method":"note.set","example_params":{"key":"key"}`,
		"notess_set": `"module":"notess","available_methods":["get_all","set"],"method_schema":{`,
		"nite_sett":  `"available_methods":["get_all","set"],"action":"call_module_schema","namespace":"note"`, "note_set": `"suggested_method":"note.set","example_params":{"key":"key"}`,
	} {
		o, err := s.Call(t.Context(), Call{Method: method}, nil)
		if err != nil || !strings.Contains(string(o.Guidance), want) {
			t.Errorf("%s: %v, %s", method, err, o.Guidance)
		}
	}
	for _, method := range []string{"note_get_all", "no_such"} {
		for _, c := range []Call{{Correlation: strings.Repeat("x", 300)}, {IdempotencyKey: "a\nb"}} {
			c.Method = method
			_, err := s.Call(t.Context(), c, nil)
			_, opened := s.Open(t.Context(), c)
			if e, ok := err.(*message.Error); !ok || e.Code != 422 || opened == nil {
				t.Errorf("%+v: %v, %v", c, err, opened)
			}
		}
	}
}

// A name without its module is found if one module alone has it, and a module only if it is
// near enough to be the one that was meant.
func TestNamesWithoutTheirModule(t *testing.T) {
	answer := func(_ context.Context, m message.Message, emit kernel.Emit) { emit(m.Reply(nil)) }
	s := newService(t, nil, raw("First.Count", message.KindQuery, answer), raw("Second.Count", message.KindQuery, answer))
	for method, want := range map[string]string{
		"set":          `"module":"set","available_methods":["get_all","set"],"method_schema":{`,
		"get_all":      `"action":"try_method","suggested_method":"note.get_all"`,
		"get_al":       `"action":"try_method","suggested_method":"note.get_all"`,
		"count":        `"module":"count","action":"call_service_schema"`,
		"footnote_set": `"module":"footnote","action":"call_service_schema"`,
		"footnote":     `"module":"footnote","action":"call_service_schema"`,
		"nite":         `"available_methods":["get_all","set"],"action":"call_module_schema","namespace":"note"`,
	} {
		o, err := s.Call(t.Context(), Call{Method: method}, nil)
		if err != nil || o.ErrorKind() != "module_not_found" || !strings.Contains(string(o.Guidance), want) {
			t.Errorf("%s: %v, %s", method, err, o.Guidance)
		}
	}
	o, err := s.Call(t.Context(), Call{Method: "service_module_schema", Params: json.RawMessage(`["footnote"]`)}, nil)
	if err != nil || !strings.Contains(string(o.Guidance), `"action":"call_service_schema"`) {
		t.Errorf("%v, %s", err, o.Guidance)
	}
}

// However often a reader is cut off, and wherever it comes back, it sees every item once.
// Invariants: R2.
func TestNothingIsLostOrRepeated(t *testing.T) {
	const all = 1000
	s := newService(t, &Options{KeepItems: 2 * all, KeepBytes: 1 << 24}, raw("Test.Count", message.KindQuery, func(_ context.Context, m message.Message, emit kernel.Emit) {
		for range all {
			emit(m.Event(kernel.Progressed, []byte(`{"message":"on"}`)))
		}
		emit(m.Reply(nil))
	}))
	sub, ran := open(t, s, "test_count", "")
	conn := dial(t, s)
	random := rand.New(rand.NewPCG(1, 2))
	var seen int64
	take := func(kind string, seq int64) (over bool) {
		t.Helper()
		if seen++; seq != seen {
			t.Fatalf("item %d came, and not %d", seq, seen)
		}
		return kind == typeDone
	}
	for round := 0; ; round++ {
		patience := 1 + random.IntN(100) // items
		if round%3 == 2 {
			conn.send(`{"jsonrpc":"2.0","id":%d,"method":"service_resume","params":[%q,%d]}`, round, sub.ID(), seen)
			for r := conn.read(); string(r.ID) != fmt.Sprint(round); { // what it got before that, it has dropped
				r = conn.read()
			}
			for range patience {
				if i := conn.item(sub.ID()); take(i.Type, i.Seq) {
					return
				}
			}
		} else {
			if round > 0 {
				var err error
				if sub, err = s.Resume(t.Context(), sub.ID(), seen, "test_count"); err != nil {
					t.Fatal(err)
				}
			}
			c := &collector{items: make(chan Item, 2*all)}
			sub.Follow(c)
			for range patience {
				if i := <-c.items; take(i.Type, i.Seq) {
					sub.Leave()
					soon(t, "it has run", ran)
					return
				}
			}
			if random.IntN(2) == 0 { // or it does not know yet that it is cut off
				sub.Leave()
			}
		}
	}
}
