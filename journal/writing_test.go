package journal

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"kernos/message"
	"kernos/store"
	"kernos/store/storetest"
)

func TestRecordsAreWrittenWithinAShortTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := storetest.NewMemory()
		j := New(s, nil)
		j.Record(in(query("a", "Ping", `1`)))
		time.Sleep(maxDelay + time.Millisecond)
		synctest.Wait()
		if _, high, err := ends(s); err != nil || high != 2 {
			t.Errorf("the page is not there: %d, %v", high, err)
		}
		// And their words a while later.
		time.Sleep(indexDelay + time.Millisecond)
		synctest.Wait()
		if at, err := readIndexed(j.s); err != nil || at.seq != 1 {
			t.Errorf("the words are indexed through %d: %v", at, err)
		}
		if err := j.Close(); err != nil {
			t.Error(err)
		}
	})
}

func TestManyRecordAtOnceWhileOthersRead(t *testing.T) {
	s := memory(t)
	j := open(t, s, nil)
	var wg sync.WaitGroup
	const each, who = 2000, 4
	for w := range who {
		wg.Go(func() {
			for i := range each {
				exchange(j, query(message.ID(fmt.Sprintf("%d-%d", w, i)), "Ping", `{"payload":"hello"}`), `{"pong":true}`)
			}
		})
	}
	wg.Go(func() {
		for range 20 {
			if _, _, err := j.List(context.Background(), Query{Reverse: true}); err != nil {
				t.Error(err)
			}
			if _, err := j.Search(context.Background(), SearchQuery{Words: "hello"}); err != nil {
				t.Error(err)
			}
		}
	})
	wg.Wait()
	check(t, j)
	order := map[string]int{}
	n := uint64(0)
	for _, e := range list(t, j, Query{Filter: Filter{Kinds: []message.Kind{message.KindQuery}}, Limit: MaxLimit}) {
		if e.Seq <= n {
			t.Fatalf("number %d after %d", e.Seq, n)
		}
		n = e.Seq
		w, i, _ := strings.Cut(string(e.Message.Metadata.ID), "-")
		if i != fmt.Sprint(order[w]) {
			t.Fatalf("%s comes %d.", e.Message.Metadata.ID, order[w])
		}
		order[w]++
	}
	for w := range who {
		if order[fmt.Sprint(w)] != each {
			t.Errorf("%d of %d were recorded", order[fmt.Sprint(w)], each)
		}
	}
	st, err := j.Stats()
	if err != nil || st.Messages != 2*each*who || st.LastSeq != 2*each*who || st.FirstSeq != 1 {
		t.Errorf("%+v, %v", st, err)
	}
}

func TestStoreThatRefusesWritesLosesRecordsThatAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := storetest.NewMemory()
		full := store.Errorf(507, nil, "The disk is full")
		refuse := true
		var mu sync.Mutex
		s.Fail(func(call string) error {
			mu.Lock()
			defer mu.Unlock()
			if call == "apply" && refuse {
				return full
			}
			return nil
		})
		j := New(s, &Options{Log: quiet})
		large := `"` + strings.Repeat("x", 60_000) + `"`
		start := time.Now()
		for i := range 200 { // 12 MB
			j.Record(in(query(message.ID(fmt.Sprint(i)), "Ping", large)))
		}
		if took := time.Since(start); took > maxWait {
			t.Errorf("200 records took %v", took)
		}
		if err := j.Flush(); !errors.Is(err, full) {
			t.Errorf("Flush: %v", err)
		}
		d, err := j.Dropped()
		if err != nil || d.Lost < 120 || d.Lost > 140 {
			t.Fatalf("%+v, %v", d, err)
		}
		mu.Lock()
		refuse = false
		mu.Unlock()
		time.Sleep(3 * time.Second)
		j.Record(in(query("later", "Ping", `1`)))
		all := list(t, j, Query{})
		kept := 200 - int(d.Lost)
		if len(all) != kept+2 {
			t.Fatalf("%d messages, want %d and two", len(all), kept)
		}
		gap := all[kept].Message
		want := fmt.Sprintf(`{"messages":%d,"since":%d,"until":%d,`, d.Lost, d.LostSince, d.LostUntil)
		if gap.Type != lostEvent || !strings.HasPrefix(string(gap.Data), want) {
			t.Errorf("got %s %s, want %s", gap.Type, gap.Data, want)
		}
		if all[kept+1].Message.Metadata.ID != "later" {
			t.Error("the record after the gap is not the last one")
		}
		check(t, j)
		if err := j.Close(); err != nil {
			t.Error(err)
		}
		again := New(s, nil)
		if d2, err := again.Dropped(); err != nil || d2 != d {
			t.Errorf("after a restart %+v, want %+v", d2, d)
		}
		if _, err := again.Get(context.Background(), "199"); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("%d messages from ", d.Lost)) {
			t.Errorf("got %v", err)
		}
		if err := again.Close(); err != nil {
			t.Error(err)
		}
	})
}

func TestRecordWaitsForAStoreThatIsSlowButNotForever(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := storetest.NewMemory()
		release := make(chan struct{})
		j := New(slowStore{s, release}, &Options{Log: quiet})
		large := `"` + strings.Repeat("x", 60_000) + `"`
		var longest time.Duration
		for i := range 80 {
			start := time.Now()
			j.Record(in(query(message.ID(fmt.Sprint(i)), "Ping", large)))
			longest = max(longest, time.Since(start))
		}
		if longest != maxWait {
			t.Errorf("the longest wait was %v, want %v", longest, maxWait)
		}
		close(release)
		if err := j.Close(); err != nil {
			t.Error(err)
		}
	})
}

func TestWhatIsRecordedDuringAFlushIsWrittenToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := storetest.NewMemory()
		release := make(chan struct{})
		j := New(slowStore{s, release}, &Options{Log: quiet})
		n := 0
		fill := func() { // more than a batch, so that nothing wakes the flusher by becoming one
			for range 3 * maxBatch / 2000 {
				n++
				j.Record(in(query(message.ID(fmt.Sprint(n)), "Ping", `"`+strings.Repeat("x", 1000)+`"`)))
			}
		}
		fill()
		synctest.Wait() // the flusher is in Apply
		fill()
		close(release)
		time.Sleep(time.Second)
		synctest.Wait()
		if got := j.last.Load(); got != uint64(n) {
			t.Errorf("%d of %d are written", got, n)
		}
		if err := j.Close(); err != nil {
			t.Error(err)
		}
	})
}

// slowStore takes writes when it is released.
type slowStore struct {
	*storetest.Memory
	release chan struct{}
}

func (s slowStore) Apply(b *store.Batch) (*store.Commit, error) {
	<-s.release
	return s.Memory.Apply(b)
}

// Two who write to one journal take turns; numbers are given once.
func TestTwoJournalsOfOneStoreGiveEachNumberOnce(t *testing.T) {
	s := memory(t)
	a, b := open(t, s, nil), open(t, s, nil)
	for i := range 20 {
		for name, j := range map[string]*Journal{"a": a, "b": b} {
			j.Record(in(query(message.ID(fmt.Sprint(name, i)), "Ping", `1`)))
			for range 3 { // a conflict, and then not
				if j.Flush() == nil {
					break
				}
			}
		}
	}
	if got := list(t, a, Query{}); len(got) != 40 {
		t.Errorf("got %d", len(got))
	}
	check(t, a)
}
