package replicated_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"kernos/internal/testkit"
	"kernos/store"
	"kernos/store/pebble"
	"kernos/store/replicated"
	"kernos/store/replicated/logtest"
	"kernos/store/storetest"
)

func newRandom(t *testing.T) *rand.Rand {
	seed := rand.Uint64()
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the seed was %d", seed)
		}
	})
	return rand.New(rand.NewPCG(seed, 1))
}

// differ reports how two contents differ.
func differ(got, want map[string]string) string {
	var text strings.Builder
	for key, value := range want {
		if got[key] != value {
			fmt.Fprintf(&text, "\n%q is %q, want %q", key, got[key], value)
		}
	}
	for key, value := range got {
		if _, ok := want[key]; !ok {
			fmt.Fprintf(&text, "\n%q is %q, want nothing", key, value)
		}
	}
	return text.String()
}

// A copy has what its owner has, byte for byte, after random work.
func TestCopiesAreEqual(t *testing.T) {
	random := newRandom(t)
	log := logtest.New()
	a, b := join(t, log), join(t, log)
	a.own(1)
	b.follow()
	is := newModel()
	for n := range storetest.Sized(1500) {
		batch := randomBatch(random, n, true)
		if random.IntN(3) == 0 { // the cache knows some of the keys
			_, _ = a.owner.Get(batch.Ops[0].Key)
		}
		c := a.apply(batch)
		is.apply(batch, c.Revision)
		if random.IntN(20) == 0 {
			a.wait(c)
		}
	}
	a.wait(a.owner.Barrier())
	if d := differ(contentOf(t, a.owner), is.now); d != "" {
		t.Errorf("the owner: %s", d)
	}
	sequence, err := a.owner.Mark(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	a.wait(a.set("m/after", "the mark"))
	var sums [2]string
	for i, m := range []*member{a, b} {
		if sums[i], err = m.copy.Checksum(t.Context(), sequence); err != nil {
			t.Fatal(err)
		}
	}
	if sums[0] != sums[1] {
		t.Errorf("the owner's checksum is %s, the copy's %s", sums[0], sums[1])
	}
	b.reach()
	b.unfollow()
	a.wait(a.owner.Barrier())
	if d := differ(b.content(), contentOf(t, a.owner)); d != "" {
		t.Errorf("the copy: %s", d)
	}
	if _, err := b.copy.Checksum(t.Context(), sequence); !coded(err, 409) {
		t.Errorf("a copy that was opened after the mark: %v", err)
	}
}

func coded(err error, code int, words ...string) bool {
	e, ok := errors.AsType[*store.Error](err)
	if !ok || e.Code != code {
		return false
	}
	for _, word := range words {
		if !strings.Contains(e.Text, word) {
			return false
		}
	}
	return true
}

// What the log has not accepted is dropped, exactly, whatever the batches were: the owner is cut off and closed, and
// follows again.
func TestTailIsDropped(t *testing.T) {
	random := newRandom(t)
	log := logtest.New()
	a := join(t, log)
	is := newModel()
	n, dropped := 0, uint64(0)
	for round := range storetest.Sized(40) {
		a.own(uint64(round + 1))
		for range random.IntN(20) {
			n++
			b := randomBatch(random, n, true)
			if random.IntN(2) == 0 {
				_, _ = a.owner.Get(b.Ops[0].Key)
			}
			is.apply(b, a.apply(b).Revision)
		}
		a.wait(a.owner.Barrier())
		accepted := is.now
		a.link.Hang()
		for range 1 + random.IntN(20) {
			n++
			b := randomBatch(random, n, false)
			if random.IntN(2) == 0 {
				_, _ = a.owner.Get(b.Ops[0].Key)
			}
			c := a.apply(b)
			is.apply(b, c.Revision)
			if random.IntN(4) == 0 {
				contentOf(t, a.owner) // makes a group of what is applied
			}
		}
		if d := differ(contentOf(t, a.owner), is.now); d != "" {
			t.Fatalf("round %d: the owner: %s", round, d)
		}
		a.disown()
		at := a.copy.Position()
		if d := differ(a.content(), is.now); d != "" {
			t.Fatalf("round %d: what is not accepted is not there after Close, where it could be taken back: %s", round, d)
		}
		dropped += at.Number - at.Accepted
		a.link.Resume()
		a.follow()
		testkit.Until(t, "the tail is dropped", func() bool { p := a.copy.Position(); return p.Number == p.Accepted })
		a.unfollow()
		if d := differ(a.content(), accepted); d != "" {
			t.Fatalf("round %d: after the tail was dropped: %s", round, d)
		}
		is.now = accepted
	}
	if dropped == 0 {
		t.Error("no group was dropped")
	}
	t.Logf("%d groups dropped", dropped)
}

// The owner dies at any moment, with any part of what it wrote on its disk, and any part in the log. It comes back
// with what the log has, no more and no less.
func TestCrash(t *testing.T) {
	random := newRandom(t)
	log := logtest.New()
	a, b := join(t, log), join(t, log)
	b.follow()
	is := newModel()
	var acknowledged int // batches
	epoch, n := uint64(0), 0
	var tails, behind int
	for round := range storetest.Sized(40) {
		epoch++
		a.own(epoch)
		var commits []*store.Commit
		cut := false
		for range 1 + random.IntN(30) {
			n++
			batch := randomBatch(random, n, false)
			c := a.apply(batch)
			commits = append(commits, c)
			is.apply(batch, c.Revision)
			switch random.IntN(12) {
			case 0:
				if !cut {
					a.wait(c)
				}
			case 1:
				contentOf(t, a.owner)
			case 2: // the rest doesn't reach the log
				a.link.Hang()
				cut = true
			case 3: // or without an answer
				a.link.Lose(random.IntN(2) == 0)
				cut = true
			}
		}
		for i, c := range commits {
			if resolved, err := c.Resolved(); resolved && err == nil {
				acknowledged = max(acknowledged, len(is.states)-len(commits)+i)
			}
		}
		a.crash([]int{0, 50, 100}[random.IntN(3)], random)
		at := a.copy.Position()
		last, _ := log.Last(t.Context())
		switch {
		case at.Number > last.Next()-1:
			tails++
		case at.Number < last.Next()-1:
			behind++
		}
		a.follow()
		a.reach()
		testkit.Until(t, "the tail is dropped", func() bool { p := a.copy.Position(); return p.Number == p.Accepted })
		a.unfollow()
		got := a.content()
		found := -1
		for i := len(is.states) - 1; i >= acknowledged; i-- {
			if maps.Equal(got, is.states[i]) {
				found = i
				break
			}
		}
		if found < 0 {
			t.Fatalf("round %d: no state since the last acknowledged one: %s", round, differ(got, is.states[acknowledged]))
		}
		b.reach()
		b.unfollow()
		if d := differ(b.content(), got); d != "" {
			t.Fatalf("round %d: the other copy: %s", round, d)
		}
		b.follow()
		is = &model{now: is.states[found], states: []map[string]string{is.states[found]}}
		acknowledged = 0
	}
	t.Logf("%d crashes left more than the log had, %d left less", tails, behind)
}

// What was acknowledged stays, whichever node owns the origin, and all copies are equal in the end.
func TestTakeovers(t *testing.T) {
	random := newRandom(t)
	log := logtest.New()
	members := []*member{join(t, log), join(t, log), join(t, log)}
	kept := make(map[string]string) // acknowledged
	owner := members[0]
	for _, m := range members[1:] {
		m.follow()
	}
	owner.own(1)
	for round := range storetest.Sized(25) {
		var commits []*store.Commit
		var keys []string
		for i := range 1 + random.IntN(10) {
			key := fmt.Sprintf("m/%d/%d", round, i)
			c, err := owner.owner.Apply(sets(key, key, "m/last", key))
			if err != nil {
				t.Fatal(err)
			}
			commits, keys = append(commits, c), append(keys, key)
			if i == 3 {
				switch random.IntN(3) {
				case 0:
					owner.link.Hang()
				case 1:
					owner.link.Lose(random.IntN(2) == 0)
				}
			}
		}
		next := members[random.IntN(3)]
		for next == owner {
			next = members[random.IntN(3)]
		}
		next.own(uint64(round + 2))
		owner.link.Resume()
		if _, err := owner.owner.Apply(sets("m/late", "late")); err != nil && !errors.Is(err, replicated.ErrDeposed) {
			t.Errorf("Apply of an owner that was deposed: %v", err)
		}
		<-owner.owner.Lost()
		for i, c := range commits {
			if err := wait(c); err == nil {
				kept[keys[i]] = keys[i]
			} else if !errors.Is(err, replicated.ErrDeposed) {
				t.Errorf("the commit of an owner that was deposed: %v", err)
			}
		}
		if _, err := owner.owner.Apply(sets("m/late", "late")); !errors.Is(err, replicated.ErrDeposed) {
			t.Errorf("Apply of an owner that was deposed: %v", err)
		}
		if err := wait(owner.owner.Barrier()); !errors.Is(err, replicated.ErrDeposed) {
			t.Errorf("Barrier of an owner that was deposed: %v", err)
		}
		for key := range kept {
			if e, err := next.owner.Get([]byte(key)); err != nil || e.Revision == 0 {
				t.Fatalf("round %d: %s was acknowledged and is lost (%v)", round, key, err)
			}
		}
		if e, err := next.owner.Get([]byte("m/late")); err != nil || e.Revision != 0 {
			t.Fatalf("round %d: what a deposed owner has taken is there (%v)", round, err)
		}
		owner.disown()
		owner.follow()
		owner = next
	}
	sequence, err := owner.owner.Mark(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	sums := make(map[string]bool)
	for _, m := range members {
		sum, err := m.copy.Checksum(t.Context(), sequence)
		if err != nil {
			t.Fatal(err)
		}
		sums[sum] = true
	}
	if len(sums) != 1 {
		t.Errorf("the copies differ: %v", sums)
	}
}

// A commit that was taken by the log is acknowledged although the answer was lost, and one that was not taken as
// well, once it is.
func TestLostAnswers(t *testing.T) {
	for _, taken := range []bool{true, false} {
		a := join(t, logtest.New())
		a.own(1)
		a.link.Lose(taken)
		c := a.set("m/1", "one")
		<-a.link.Hung()
		if resolved, _ := c.Resolved(); resolved {
			t.Errorf("taken %t: the commit was resolved before the outcome was known", taken)
		}
		if e, err := a.owner.Get([]byte("m/1")); err != nil || e.Revision == 0 {
			t.Errorf("taken %t: it isn't visible: %v", taken, err)
		}
		fence := a.owner.Barrier()
		if resolved, _ := fence.Resolved(); resolved {
			t.Errorf("taken %t: what can be lost may be shown", taken)
		}
		second := a.set("m/2", "two")
		a.link.Resume()
		a.wait(c)
		a.wait(fence)
		a.wait(second)
		groups := 0
		for _, e := range a.link.Log.Entries() {
			groups += len(e.Groups)
		}
		if groups != 2 {
			t.Errorf("taken %t: the log has %d groups", taken, groups)
		}
	}
}

// While an entry is on its way, groups gather for the next one.
func TestGroupsGather(t *testing.T) {
	a := join(t, logtest.New())
	a.own(1)
	a.link.Hang()
	a.set("m/0", "")
	<-a.link.Hung()
	for i := range 10 {
		a.set(fmt.Sprint("m/", i), "")
		contentOf(t, a.owner) // makes it a group
	}
	a.link.Resume()
	a.wait(a.owner.Barrier())
	entries := a.link.Log.Entries()
	if last := entries[len(entries)-1]; len(entries) != 3 || len(last.Groups) != 10 {
		t.Errorf("%d entries, the last one has %d groups", len(entries), len(last.Groups))
	}
	at := a.copy.Position()
	if at.Accepted != 11 || at.Number != 11 || at.Epoch != 1 {
		t.Errorf("the position is %+v", at)
	}
}

// The fence of reads is open while the lease holds and nothing is pending.
func TestBarrier(t *testing.T) {
	a := join(t, logtest.New())
	a.own(1)
	a.wait(a.owner.Barrier())
	a.lease.End()
	if err := wait(a.owner.Barrier()); !errors.Is(err, logtest.ErrLapsed) {
		t.Errorf("without the lease: %v", err)
	}
	a.lease.Renew()
	a.wait(a.owner.Barrier())
	a.wait(a.set("m/1", "one"))
	a.wait(a.owner.Barrier())
}

// An owner without its lease that can't reach the log fails what is pending, and continues when it is the owner still.
func TestLeaseLapses(t *testing.T) {
	a := join(t, logtest.New())
	a.own(1)
	a.wait(a.set("m/1", "one"))
	a.link.Hang()
	pending := a.set("m/2", "two")
	<-a.link.Hung()
	a.lease.End()
	if err := wait(pending); !errors.Is(err, logtest.ErrLapsed) {
		t.Errorf("a pending commit: %v", err)
	}
	if _, err := a.owner.Apply(sets("m/3", "three")); !errors.Is(err, logtest.ErrLapsed) {
		t.Errorf("Apply: %v", err)
	}
	if e, err := a.owner.Get([]byte("m/1")); err != nil || string(e.Value) != "one" {
		t.Errorf("reading: %v", err)
	}
	a.lease.Renew()
	a.link.Resume()
	testkit.Until(t, "the owner writes again", func() bool {
		c, err := a.owner.Apply(sets("m/4", "four"))
		return err == nil && wait(c) == nil
	})
	if e, err := a.owner.Get([]byte("m/2")); err != nil || string(e.Value) != "two" {
		t.Errorf("what the log has taken in the end: %q, %v", e.Value, err)
	}
}

// A range is deleted when the log has that. Without the lease, the caller doesn't wait for it.
func TestRangeWaitsForLog(t *testing.T) {
	a := join(t, logtest.New())
	a.own(1)
	a.wait(a.set("m/1", "one", "m/2", "two"))
	b := new(store.Batch)
	b.DeleteRange([]byte("m/1"), []byte("m/2"))
	a.link.Hang()
	applied := make(chan error, 1)
	go func() {
		c, err := a.owner.Apply(b)
		if err == nil {
			err = wait(c)
		}
		applied <- err
	}()
	<-a.link.Hung()
	if e, err := a.owner.Get([]byte("m/1")); err != nil || e.Revision == 0 {
		t.Errorf("a range is deleted that the log has not accepted: %v", err)
	}
	a.lease.End()
	if err := <-applied; !errors.Is(err, logtest.ErrLapsed) {
		t.Errorf("Apply without the lease: %v", err)
	}
	a.lease.Renew()
	a.link.Resume()
	testkit.Until(t, "the range is deleted", func() bool {
		e, err := a.owner.Get([]byte("m/1"))
		return err == nil && e.Revision == 0
	})
	testkit.Until(t, "the owner writes again", func() bool {
		c, err := a.owner.Apply(sets("m/4", "four"))
		return err == nil && wait(c) == nil
	})
}

// A range that another owner has come before is not deleted.
func TestRangeOfDeposedOwner(t *testing.T) {
	log := logtest.New()
	a, b := join(t, log), join(t, log)
	a.own(1)
	a.wait(a.set("m/1", "one"))
	a.link.Hang()
	batch := new(store.Batch)
	batch.DeleteRange([]byte("m/1"), []byte("m/2"))
	applied := make(chan error, 1)
	go func() {
		_, err := a.owner.Apply(batch)
		applied <- err
	}()
	<-a.link.Hung()
	b.own(2)
	a.link.Resume()
	if err := <-applied; !errors.Is(err, replicated.ErrDeposed) {
		t.Errorf("Apply: %v", err)
	}
	if e, err := a.owner.Get([]byte("m/1")); err != nil || e.Revision == 0 {
		t.Errorf("the range is deleted: %v", err)
	}
}

// Batches that are too large to be taken back are published first.
func TestLargeBatches(t *testing.T) {
	log := logtest.New()
	a, b := join(t, log), join(t, log)
	a.own(1)
	b.follow()
	large := strings.Repeat("large", 1<<20)
	first := a.set("m/1", large)
	second := a.set("m/2", "small")
	a.wait(first)
	a.wait(second)
	a.wait(a.set("m/1", "small")) // the undo record would be large
	b.reach()
	b.unfollow()
	if d := differ(b.content(), contentOf(t, a.owner)); d != "" {
		t.Error("the copies differ")
	}
}

// While the log refuses entries, writing fails with its error, and reading continues.
func TestLogRefuses(t *testing.T) {
	a := join(t, logtest.New())
	a.own(1)
	a.link.Refuse(1000)
	c := a.set("m/1", "one")
	if err := wait(c); !errors.Is(err, logtest.ErrRefused) {
		t.Errorf("the commit: %v", err)
	}
	if _, err := a.owner.Apply(sets("m/2", "two")); !errors.Is(err, logtest.ErrRefused) {
		t.Errorf("Apply: %v", err)
	}
	a.link.Resume()
	testkit.Until(t, "the owner writes again", func() bool {
		c, err := a.owner.Apply(sets("m/3", "three"))
		return err == nil && wait(c) == nil
	})
}

// Close gives up on a log that hangs.
func TestCloseWithoutLog(t *testing.T) {
	a := join(t, logtest.New())
	a.own(1)
	a.link.Hang()
	c := a.set("m/1", "one")
	fence := a.owner.Barrier()
	a.disown()
	for _, c := range []*store.Commit{c, fence} {
		if err := wait(c); !coded(err, 503) {
			t.Errorf("a commit that was pending: %v", err)
		}
	}
	if at := a.copy.Position(); at.Number != at.Accepted+1 {
		t.Errorf("the position is %+v", at)
	}
	a.link.Resume()
	a.own(2)
	if e, err := a.owner.Get([]byte("m/1")); err != nil || e.Revision != 0 {
		t.Errorf("what was not accepted is there: %v", err)
	}
	if _, err := a.copy.Own(t.Context(), 3, a.lease); !coded(err, 409) {
		t.Errorf("Own of a copy that is owned: %v", err)
	}
	if err := a.copy.Follow(t.Context()); !coded(err, 409) {
		t.Errorf("Follow of a copy that is owned: %v", err)
	}
}

// A mark that the log doesn't take ends with the owner.
func TestMarkWithoutLog(t *testing.T) {
	a := join(t, logtest.New())
	a.own(1)
	a.link.Hang()
	marked := make(chan error)
	go func() {
		_, err := a.owner.Mark(context.Background())
		marked <- err
	}()
	<-a.link.Hung()
	if err := a.owner.Close(); err != nil {
		t.Error(err)
	}
	if err := <-marked; !coded(err, 503) {
		t.Errorf("Mark: %v", err)
	}
}

// Without work, an owner notes that everything was accepted, so that a crash leaves no tail.
func TestIdleOwnerSettles(t *testing.T) {
	a := join(t, logtest.New())
	a.own(1)
	a.wait(a.set("m/1", "one"))
	testkit.Until(t, "the position is on the disk", func() bool {
		left := a.disk.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: rand.New(rand.NewPCG(1, 1))})
		e, err := pebble.Open("copy", &pebble.Options{FS: left, Copy: true})
		if err != nil {
			t.Fatal(err)
		}
		at, _, err := e.Position()
		if err = errors.Join(err, e.Close()); err != nil {
			t.Fatal(err)
		}
		return at.Accepted == 1
	})
}

// An epoch begins once, and after the ones before it.
func TestEpochs(t *testing.T) {
	log := logtest.New()
	a, b := join(t, log), join(t, log)
	a.own(5)
	for _, epoch := range []uint64{4, 5} {
		if _, err := b.copy.Own(t.Context(), epoch, b.lease); !errors.Is(err, replicated.ErrDeposed) {
			t.Errorf("epoch %d after epoch 5: %v", epoch, err)
		}
	}
	a.wait(a.set("m/1", "one"))
	b.own(6)
	if e, err := b.owner.Get([]byte("m/1")); err != nil || e.Revision == 0 {
		t.Errorf("the new owner does not have what the old one wrote: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	c := join(t, log)
	if _, err := c.copy.Own(ctx, 7, c.lease); !errors.Is(err, context.Canceled) {
		t.Errorf("Own with a context that is done: %v", err)
	}
}
