package journal

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"kernos/kernel"
	"kernos/message"
	"kernos/store"
	"kernos/store/storetest"
)

// set does what the kernel does for a command that changes something: it records the
// request, and the reply together with the effect.
func set(j *Journal, s store.Store, id string) error {
	m := command(message.ID(id), "Memory.Set", fmt.Sprintf(`{"key":"/%s","value":"word %s"}`, id, id))
	j.Record(in(m))
	event := made(m.Event("Memory.Changed", json.RawMessage(`{}`)))
	reply := made(m.Reply(json.RawMessage(`{"ok":true}`)))
	var b store.Batch
	b.Set([]byte("m/"+id), []byte(id))
	return j.RecordWith(&b, []kernel.Record{in(m), within(event), out(reply)}, func() error {
		_, err := s.Apply(&b)
		return err
	})
}

func TestRecordsOfABatchSurviveWithIt(t *testing.T) {
	s := memory(t)
	s.Manual()
	j := open(t, s, nil)
	if err := set(j, s, "a"); err != nil {
		t.Fatal(err)
	}
	after := s.Crash(1) // the batch is on the disk, and no page is
	again := open(t, after, nil)
	var got []string
	for _, e := range list(t, again, Query{}) {
		got = append(got, fmt.Sprintf("%d %s %s", e.Seq, e.Message.Kind, e.Message.Type))
	}
	if want := []string{"1 command Memory.Set", "2 event Memory.Changed", "3 reply Memory.Set"}; !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
	check(t, again)
	if n := count(t, after, spaceTails); n != 0 {
		t.Errorf("%d tails are left", n)
	}
}

func count(t testing.TB, s store.Reader, space byte) int {
	t.Helper()
	n := 0
	for _, err := range s.Scan(store.Prefix(key(space))) {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	return n
}

func TestRequestThatIsInAPageIsNotRecordedAgain(t *testing.T) {
	s := memory(t)
	s.Manual()
	j := open(t, s, nil)
	m := command("a", "Memory.Set", `{}`)
	j.Record(in(m))
	if err := j.Flush(); err != nil {
		t.Fatal(err)
	}
	var b store.Batch
	b.Set([]byte("m/a"), nil)
	if err := j.RecordWith(&b, []kernel.Record{in(m), out(made(m.Reply(json.RawMessage(`1`))))}, func() error {
		_, err := s.Apply(&b)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	again := open(t, s.Crash(2), nil)
	if all := list(t, again, Query{}); len(all) != 2 || all[0].Message.Kind != message.KindCommand || all[1].Message.Kind != message.KindReply {
		t.Errorf("got %v", ids(all))
	}
	check(t, again)
}

func TestBatchThatFailsLeavesNoRecord(t *testing.T) {
	s := memory(t)
	j := open(t, s, nil)
	m := command("a", "Memory.Set", `{}`)
	j.Record(in(m))
	conflict := errors.New("no")
	var b store.Batch
	b.Set([]byte("m/a"), nil)
	err := j.RecordWith(&b, []kernel.Record{in(m), out(made(m.Reply(json.RawMessage(`1`))))}, func() error {
		if len(b.Ops) != 2 {
			t.Errorf("the batch has %d changes", len(b.Ops))
		}
		return conflict
	})
	if err != conflict {
		t.Errorf("got %v", err)
	}
	if all := list(t, j, Query{}); len(all) != 1 {
		t.Errorf("got %v", ids(all))
	}
}

func TestTailsGoWhenTheirPageIsWritten(t *testing.T) {
	s := memory(t)
	j := open(t, s, nil)
	for i := range 100 {
		if err := set(j, s, fmt.Sprint(i)); err != nil {
			t.Fatal(err)
		}
	}
	m := command("alone", "Memory.Set", `{}`)
	j.Record(in(m))
	if err := j.Flush(); err != nil {
		t.Fatal(err)
	}
	var b store.Batch
	b.Set([]byte("m/alone"), nil)
	if err := j.RecordWith(&b, []kernel.Record{in(m)}, func() error { _, err := s.Apply(&b); return err }); err != nil {
		t.Fatal(err)
	}
	if n := count(t, s, spaceTails); n != 1 {
		t.Errorf("%d tails, want 1", n)
	}
	if err := j.Flush(); err != nil {
		t.Fatal(err)
	}
	if n := count(t, s, spaceTails); n != 0 {
		t.Errorf("%d tails are left", n)
	}
	if all := list(t, j, Query{Limit: 1000}); len(all) != 301 {
		t.Errorf("%d messages, want 301", len(all))
	}
	check(t, j)
}

// Whatever a crash leaves: what is there agrees, every effect has its record, and numbers
// are given once.
// Invariants: P1, P2, P3.
func TestJournalAgreesAfterACrashAtEveryCommit(t *testing.T) {
	work := func(s *storetest.Memory) { // what is done before the crash
		j := New(s, embedding(&Options{Retention: Retention{MaxAge: time.Hour}, Log: quiet}))
		for i := range 60 {
			if set(j, s, fmt.Sprint(i)) != nil {
				break
			}
			exchange(j, query(message.ID(fmt.Sprintf("q%d", i)), "Ping", `{"payload":"hello"}`), `{"pong":true}`)
			switch i {
			case 3, 13, 23, 33:
				_ = j.Flush()
			case 5, 15, 25, 35, 45:
				_, _ = j.Search(context.Background(), SearchQuery{Words: "hello"})
			case 30:
				_, _ = j.Trim(context.Background(), time.Now().Add(2*time.Hour))
			}
		}
		_ = j.Close()
	}
	s := storetest.NewMemory()
	s.Manual()
	work(s)
	commits := s.Pending()
	if commits < 60 {
		t.Fatalf("%d commits", commits)
	}
	for keep := 0; keep <= commits; keep += 4 / storetest.Sized(4) { // every commit, or with the race detector every fourth
		s := storetest.NewMemory()
		s.Manual()
		work(s)
		after := s.Crash(keep)
		for round := range 2 { // the second time after a crash while it recovers
			j := New(after, embedding(&Options{Log: quiet}))
			if round == 0 {
				_ = j.Flush()
				_ = j.Close()
				after = after.Crash(after.Pending() / 2)
				continue
			}
			exchange(j, query("last", "Ping", `1`), `1`)
			if err := j.Check(context.Background()); err != nil {
				t.Fatalf("after %d commits: %v", keep, err)
			}
			checkMeaning(t, j)
			if n := count(t, after, spaceTails); n != 0 {
				t.Fatalf("after %d commits: %d tails are left", keep, n)
			}
			d, err := j.Dropped()
			if err != nil {
				t.Fatal(err)
			}
			replies := map[message.ID]int{}
			for _, e := range list(t, j, Query{Filter: Filter{Type: "Memory.Set"}, Limit: 1000}) {
				if e.Message.Kind == message.KindReply {
					replies[e.Message.Metadata.Causation]++
				} else {
					replies[e.Message.Metadata.ID] += 10
				}
			}
			for e, err := range after.Scan(store.Prefix([]byte("m/"))) {
				if err != nil {
					t.Fatal(err)
				}
				id := message.ID(strings.TrimPrefix(string(e.Key), "m/"))
				if replies[id] != 11 && (replies[id] != 0 || d.Messages == 0) {
					t.Fatalf("after %d commits: the effect of %s has %d records", keep, id, replies[id])
				}
			}
			if err := j.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// A write that fails must leave the journal in memory as it is on the disk.
func TestJournalAgreesAfterEveryFailedWrite(t *testing.T) {
	for fail := range 25 {
		s := storetest.NewMemory()
		n := 0
		s.Fail(func(call string) error {
			if call == "apply" {
				if n++; n == fail+1 {
					return errors.New("no")
				}
			}
			return nil
		})
		j := New(s, embedding(&Options{Retention: Retention{MaxAge: time.Hour}, Log: quiet}))
		for i := range 12 {
			_ = set(j, s, fmt.Sprint(i))
			_, _ = j.Search(context.Background(), SearchQuery{Words: "word"})
			if i == 8 {
				_, _ = j.Trim(context.Background(), time.Now().Add(2*time.Hour))
			}
		}
		s.Fail(nil)
		if _, err := searchAll(t, j, SearchQuery{Words: "word"}); err != nil {
			t.Fatalf("write %d fails: %v", fail, err)
		}
		check(t, j)
		checkMeaning(t, j)
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
