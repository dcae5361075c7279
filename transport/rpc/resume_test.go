package rpc

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"kernos/internal/testkit"
	"kernos/kernel"
	"kernos/kernel/principal"
	"kernos/message"
)

// A stream whose connection was lost goes on elsewhere, without gap or repeat.
func TestResumeGoesOnAfterTheLastItem(t *testing.T) {
	g := newGate()
	s := newService(t, nil, g.syscall("Test.Wait", message.KindQuery))
	one := dial(t, s)
	id := one.call("test_wait", "[]")
	g.steps <- "1"
	g.steps <- "2"
	one.item(id)
	one.item(id)
	one.lose()
	<-one.gone
	g.steps <- "3"
	two := dial(t, s)
	two.send(`{"jsonrpc":"2.0","id":1,"method":"service_resume","params":[%q,1]}`, id)
	if r := two.read(); string(r.Result) != strconv.Quote(id) {
		t.Fatalf("not acknowledged: %+v", r)
	}
	g.steps <- "4"
	close(g.steps)
	for seq := int64(2); seq <= 6; seq++ {
		i := two.item(id)
		if i.Seq != seq {
			t.Fatalf("item %d came, and %d was to come", i.Seq, seq)
		}
		if seq <= 4 && string(i.Data) != strconv.FormatInt(seq, 10) || seq == 6 && i.Type != "done" {
			t.Errorf("item %d is %+v", seq, i)
		}
	}
	one.wait() // it has nothing to wait for any more
}

// A stream that is done is kept too: its last items may have been in flight.
func TestResumeGivesWhatWasOnItsWay(t *testing.T) {
	s := newService(t, nil)
	one := dial(t, s)
	id := one.call("note_get_all", "[]")
	one.items(id)
	one.lose()
	one.wait()
	two := dial(t, s)
	two.send(`{"jsonrpc":"2.0","id":1,"method":"service_resume","params":{"subscription":%q,"after":0}}`, id)
	two.read()
	if got := kinds(two.items(id)); got != "data done" {
		t.Errorf("got %s", got)
	}
	two.send(`{"jsonrpc":"2.0","id":2,"method":"service_unsubscribe","params":[%q]}`, id)
	if r := two.read(); string(r.Result) != "true" {
		t.Errorf("got %+v", r)
	}
	two.send(`{"jsonrpc":"2.0","id":3,"method":"service_resume","params":[%q,0]}`, id)
	if r := two.read(); r.Error == nil || r.Error.Code != codeNotKept || string(r.Error.Data) != `{"name":"not_kept"}` {
		t.Errorf("a stream that was given up is still kept: %+v", r)
	}
}

// A peer that does not know that it was lost is a peer all the same: the stream moves.
func TestResumeTakesAStreamFromALiveConnection(t *testing.T) {
	g := newGate()
	s := newService(t, nil, g.syscall("Test.Wait", message.KindCommand))
	one, two := dial(t, s), dial(t, s)
	id := one.call("test_wait", "[]")
	two.send(`{"jsonrpc":"2.0","id":1,"method":"service_resume","params":[%q,0]}`, id)
	two.read()
	close(g.steps)
	if got := kinds(two.items(id)); got != "data done" {
		t.Errorf("got %s", got)
	}
	one.end(io.EOF)
	one.wait()
	if len(one.out) > 0 {
		t.Errorf("%s came to the first connection too", one.next())
	}
}

// What is not kept any more is refused, and not given with a gap.
func TestResumeRefusesAGap(t *testing.T) {
	g := newGate()
	s := newService(t, &Options{KeepItems: 4}, g.syscall("Test.Wait", message.KindQuery))
	one := dial(t, s)
	id := one.call("test_wait", "[]")
	for range 20 {
		g.steps <- "0"
		one.item(id)
	}
	for after, code := range map[int]int{0: codeNotKept, 10: codeNotKept, 21: codeInvalidParams, -1: codeInvalidParams} {
		one.send(`{"jsonrpc":"2.0","id":1,"method":"service_resume","params":[%q,%d]}`, id, after)
		if r := one.read(); r.Error == nil || r.Error.Code != code {
			t.Errorf("after %d: %+v", after, r)
		}
	}
	one.send(`{"jsonrpc":"2.0","id":1,"method":"service_resume","params":[%q,19]}`, id)
	one.read()
	if i := one.item(id); i.Seq != 20 {
		t.Errorf("got %+v", i)
	}
	close(g.steps)
	for one.item(id).Type != "done" {
	}
}

// No peer comes back: a query is cancelled, a command is completed.
func TestLostStreamsExpire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		query, command := newGate(), newGate()
		s := newService(t, &Options{KeepFor: time.Minute}, query.syscall("Test.Ask", message.KindQuery), command.syscall("Test.Do", message.KindCommand))
		one := dial(t, s)
		id := one.call("test_ask", "[]")
		one.call("test_do", "[]")
		one.lose()
		time.Sleep(59 * time.Second)
		synctest.Wait()
		if len(query.cancelled) > 0 {
			t.Error("the query was cancelled early")
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if len(query.cancelled) != 1 {
			t.Error("the query was not cancelled")
		}
		if len(command.cancelled) != 0 {
			t.Error("the command was cancelled")
		}
		close(command.steps)
		one.wait()
		two := dial(t, s)
		two.send(`{"jsonrpc":"2.0","id":1,"method":"service_resume","params":[%q,0]}`, id)
		if r := two.read(); r.Error == nil || r.Error.Code != codeNotKept {
			t.Errorf("got %+v", r)
		}
		two.end(io.EOF)
		two.wait()
	})
}

// Who says goodbye does not come back.
func TestGoodbyeCancelsQueriesAtOnce(t *testing.T) {
	query, command := newGate(), newGate()
	s := newService(t, nil, query.syscall("Test.Ask", message.KindQuery), command.syscall("Test.Do", message.KindCommand))
	one := dial(t, s)
	one.call("test_ask", "[]")
	one.call("test_do", "[]")
	one.end(io.EOF)
	<-query.cancelled
	close(command.steps)
	one.wait()
	if len(command.cancelled) != 0 {
		t.Error("the command was cancelled")
	}
}

// What is kept for all who were lost is bounded, and those who were lost first go first.
func TestLostStreamsAreBounded(t *testing.T) {
	g := newGate()
	s := newService(t, &Options{KeepAll: 16 << 10}, g.syscall("Test.Wait", message.KindQuery))
	first := dial(t, s)
	first.call("test_wait", "[]")
	first.lose()
	for range 8 {
		c := dial(t, s)
		c.items(c.call("note_get_all", "[]"))
		c.lose()
		c.wait()
	}
	<-g.cancelled
	first.wait()
	testkit.Until(t, "no more is kept than may be", func() bool { return keptOf(s).bytes <= 16<<10 })
}

// Calls that do not end by themselves go on for some of those who were lost, and not for more
// than there may be: those who were lost first go first. One that is resumed, or has ended,
// does not count.
func TestLostEndlessStreamsAreBounded(t *testing.T) {
	watched, waited := newGate(), newGate()
	watched.cancelled, waited.cancelled = make(chan error, 8), make(chan error, 8)
	watch := watched.syscall("Test.Watch", message.KindQuery)
	watch.Runs = kernel.Endless
	s := newService(t, &Options{KeepEndless: 2}, watch, waited.syscall("Test.Wait", message.KindQuery))
	lose := func(method string, calls int) (last string) {
		c := dial(t, s)
		for range calls {
			last = c.call(method, "[]")
		}
		c.lose()
		return last
	}
	kept := func(lost, endless int) {
		t.Helper()
		testkit.Until(t, fmt.Sprintf("%d streams are kept, and %d endless calls go on", lost, endless), func() bool {
			now := keptOf(s)
			return now.lost == lost && now.endless == endless
		})
	}
	first := lose("test_watch", 1)
	kept(1, 1)
	second := lose("test_watch", 1)
	kept(2, 2)
	back := dial(t, s)
	back.send(`{"jsonrpc":"2.0","id":1,"method":"service_resume","params":[%q,0]}`, second)
	back.read()
	kept(1, 1)
	back.lose()
	kept(2, 2)
	lose("test_watch", 1)
	<-watched.cancelled
	kept(2, 2)
	testkit.Until(t, "the one that was lost first is given up", func() bool { return s.kept.find(principal.TheOwner(), first) == nil })
	if s.kept.find(principal.TheOwner(), second) == nil {
		t.Error("the one that was lost last is given up too")
	}
	lose("test_watch", 3) // too many by themselves
	for range 3 {
		<-watched.cancelled
	}
	kept(2, 2)
	lose("test_wait", 3) // which end some time
	kept(5, 2)
	close(watched.steps) // they end by themselves
	kept(5, 0)
}

// A stream that no peer reads and that says too much is given up.
func TestLostStreamThatOverflowsIsGivenUp(t *testing.T) {
	g := newGate()
	s := newService(t, &Options{KeepItems: 4}, g.syscall("Test.Wait", message.KindQuery))
	one := dial(t, s)
	one.call("test_wait", "[]")
	one.lose()
	for {
		select {
		case g.steps <- "0":
			continue
		case <-g.cancelled:
		}
		break
	}
	one.wait()
	testkit.Until(t, "nothing is kept of it", func() bool { return keptOf(s) == (kept{}) })
}

// Resumed and unsubscribed in one batch: what was kept comes before the end, and both come
// behind the response.
func TestResumeAndUnsubscribeInOneBatch(t *testing.T) {
	for _, over := range []bool{false, true} {
		g := newGate()
		s := newService(t, nil, g.syscall("Test.Wait", message.KindQuery))
		one := dial(t, s)
		id := one.call("test_wait", "[]")
		for _, step := range []string{"1", "2", "3"} {
			g.steps <- step
			one.item(id)
		}
		want := "data data error done"
		if over {
			close(g.steps)
			one.item(id)
			one.item(id)
			want = "data data data done"
		}
		one.lose()
		two := dial(t, s)
		two.send(`[{"jsonrpc":"2.0","id":1,"method":"service_resume","params":[%q,1]},{"jsonrpc":"2.0","id":2,"method":"service_unsubscribe","params":[%q]},
			{"jsonrpc":"2.0","id":3,"method":"service_resume","params":["none",1]}]`, id, id)
		var all []response
		if err := json.Unmarshal([]byte(two.next()), &all); err != nil || len(all) != 3 || string(all[0].Result) != strconv.Quote(id) || string(all[1].Result) != "true" || all[2].Error == nil {
			t.Fatalf("%v: %+v", err, all)
		}
		var items []item
		for len(items) == 0 || items[len(items)-1].Type != "done" {
			i := two.item(id)
			if i.Seq != int64(len(items)+2) {
				t.Fatalf("item %d came behind %d", i.Seq, len(items)+1)
			}
			items = append(items, i)
		}
		if kinds(items) != want {
			t.Errorf("got %s, want %s", kinds(items), want)
		}
		if !over {
			<-g.cancelled
		}
		one.wait()
		two.send(`{"jsonrpc":"2.0","id":4,"method":"service_resume","params":[%q,1]}`, id)
		if r := two.read(); r.Error == nil || r.Error.Code != codeNotKept {
			t.Errorf("it is kept still: %+v", r)
		}
		// The other way round there is nothing to resume.
		id = two.call("note_get_all", "[]")
		two.items(id)
		two.send(`[{"jsonrpc":"2.0","id":1,"method":"service_unsubscribe","params":[%q]},{"jsonrpc":"2.0","id":2,"method":"service_resume","params":[%q,0]}]`, id, id)
		if err := json.Unmarshal([]byte(two.next()), &all); err != nil || string(all[0].Result) != "true" || all[1].Error == nil || all[1].Error.Code != codeNotKept {
			t.Errorf("%v: %+v", err, all)
		}
	}
}

// Who resumes streams that are done keeps no more of them than of its own.
func TestResumedStreamsThatAreDoneAreBounded(t *testing.T) {
	s := newService(t, nil)
	collect := dial(t, s)
	var first string
	for range 3 {
		c := dial(t, s)
		var ids []string
		for range keepFinished / 2 {
			id := c.call("note_get_all", "[]")
			c.items(id)
			ids = append(ids, id)
		}
		c.lose()
		c.wait()
		for _, id := range ids {
			collect.send(`{"jsonrpc":"2.0","id":1,"method":"service_resume","params":[%q,0]}`, id)
			collect.read()
			collect.items(id)
			if first == "" {
				first = id
			}
		}
	}
	collect.send(`{"jsonrpc":"2.0","id":1,"method":"service_resume","params":[%q,0]}`, first)
	if r := collect.read(); r.Error == nil || r.Error.Code != codeNotKept {
		t.Errorf("the first one is kept: %+v", r)
	}
	if now := keptOf(s); now.streams != keepFinished || now.lost != 0 {
		t.Errorf("%+v are kept", now)
	}
	collect.end(io.EOF)
	collect.wait()
	testkit.Until(t, "nothing is kept", func() bool { return keptOf(s) == (kept{}) })
}

// A stream that is done and was resumed elsewhere is kept there, whatever its first connection
// does after that.
func TestResumedStreamLeavesItsConnection(t *testing.T) {
	s := newService(t, nil)
	one, two := dial(t, s), dial(t, s)
	id := one.call("note_get_all", "[]")
	one.items(id)
	resume := func(c *talk) {
		t.Helper()
		c.send(`{"jsonrpc":"2.0","id":1,"method":"service_resume","params":[%q,0]}`, id)
		if r := c.read(); r.Error != nil {
			t.Fatalf("it is not kept: %+v", r)
		}
		c.items(id)
	}
	resume(two)
	for range 2 * keepFinished {
		one.items(one.call("note_get_all", "[]"))
	}
	resume(two)
	one.end(io.EOF)
	one.wait()
	resume(dial(t, s))
}

// A program that ends finishes what it sends to the connection that has resumed it, too.
func TestStopFinishesWhatWasResumed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		s := newService(t, nil, g.syscall("Test.Wait", message.KindQuery))
		one, two := dial(t, s), dial(t, s)
		id := one.call("test_wait", "[]")
		two.send(`{"jsonrpc":"2.0","id":1,"method":"service_resume","params":[%q,0]}`, id)
		two.read()
		two.stop <- struct{}{}
		synctest.Wait()
		if len(two.served) > 0 {
			t.Error("it is not waited for")
		}
		g.steps <- "1"
		close(g.steps)
		if got := kinds(two.items(id)); got != "data data done" {
			t.Errorf("got %s", got)
		}
		two.wait()
	})
}

// A program that ends does not wait for queries of a peer that leaves meanwhile, whichever
// connection they came over. Commands are completed.
func TestStopDoesNotWaitForAPeerThatLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		query, command, elsewhere := newGate(), newGate(), newGate()
		s := newService(t, nil, query.syscall("Test.Ask", message.KindQuery), command.syscall("Test.Do", message.KindCommand), elsewhere.syscall("Test.Wait", message.KindQuery))
		one, two := dial(t, s), dial(t, s)
		id := one.call("test_wait", "[]")
		two.send(`{"jsonrpc":"2.0","id":1,"method":"service_resume","params":[%q,0]}`, id)
		two.read()
		two.call("test_ask", "[]")
		two.call("test_do", "[]")
		two.stop <- struct{}{}
		synctest.Wait()
		if len(query.cancelled) > 0 {
			t.Error("the query of a peer that is there was cancelled")
		}
		two.lose()
		<-query.cancelled
		<-elsewhere.cancelled
		synctest.Wait()
		if len(two.served) > 0 || len(command.cancelled) > 0 {
			t.Error("the command is not waited for")
		}
		close(command.steps)
		two.wait()
	})
}

// kept is how much a service keeps.
type kept struct{ streams, lost, bytes, endless int }

func keptOf(s *Service) kept {
	s.kept.mu.Lock()
	now := kept{0, s.kept.lost.Len(), s.kept.bytes, s.kept.endless}
	conns := slices.Collect(maps.Values(s.kept.conns))
	s.kept.mu.Unlock()
	for _, c := range conns {
		c.mu.Lock()
		now.streams += len(c.streams)
		c.mu.Unlock()
	}
	return now
}
