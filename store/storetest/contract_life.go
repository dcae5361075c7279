package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"kernos/store"
)

func testCommits(f *fixture) {
	const steps = 1000
	commits := make([]*store.Commit, steps)
	var mu sync.Mutex
	called, inOrder := 0, make([]int, 0, steps)
	for i := range commits {
		commits[i] = f.apply(sets(fmt.Sprintf("m/%d", i%10), fmt.Sprint(i)))
		var waits atomic.Bool
		commits[i].Then(func(err error) {
			if err != nil {
				f.Errorf("commit %d: %v", i, err)
			}
			mu.Lock()
			defer mu.Unlock()
			called++
			if waits.Load() { // Then calls the function at once if the commit is decided, also before those that wait are called
				inOrder = append(inOrder, i)
			}
		})
		waits.Store(true)
	}
	// Who stops waiting does not change the commit.
	cancelled, cancel := context.WithCancel(context.Background())
	cancel()
	if err := commits[steps-1].Wait(cancelled); err != nil && !errors.Is(err, context.Canceled) {
		f.Errorf("Wait with a context that is done: %v", err)
	}
	f.wait(commits[steps-1])
	for i, c := range commits {
		// The last batch is durable, so this one is.
		f.wait(c)
		if i > 0 && c.Revision <= commits[i-1].Revision {
			f.Errorf("commit %d has revision %d, the one before it %d", i, c.Revision, commits[i-1].Revision)
		}
	}
	f.close() // all callbacks have returned by now
	mu.Lock()
	defer mu.Unlock()
	if called != steps || !slices.IsSorted(inOrder) {
		f.Errorf("%d of %d commits were told of, in order: %t", called, steps, slices.IsSorted(inOrder))
	}
}

func testBarrier(f *fixture) {
	for i := range 100 {
		f.set(fmt.Sprintf("m/%d", i), "")
	}
	before := f.everything()
	barriers := make([]*store.Commit, 100)
	for i := range barriers {
		barriers[i] = f.store.Barrier()
	}
	for _, b := range barriers {
		f.wait(b)
	}
	if after := f.everything(); !equal(before, after) {
		f.Errorf("a barrier wrote something:%s", show(after))
	}
	f.wait(f.store.Barrier())
}

func testWatch(f *fixture) {
	f.set("m/0", "before")
	prefix := []byte("m/1")
	some, other := f.store.Watch(prefix), f.store.Watch([]byte("m/2"))
	overwrite(prefix) // Watch must have copied the prefix
	every, stopped := f.store.Watch(nil), f.store.Watch([]byte("m/1"))
	defer some.Stop()
	defer other.Stop()
	defer every.Stop()
	stopped.Stop()
	stopped.Stop() // twice is no mistake

	step := func(name string, change func(b *store.Batch), someWant, otherWant bool) {
		f.Helper()
		var b store.Batch
		change(&b)
		f.apply(&b)
		if !notified(every) {
			f.Fatalf("%s: the watcher of everything was not told", name)
		}
		for _, w := range []struct {
			name string
			*store.Watcher
			want bool
		}{{"m/1", some, someWant}, {"m/2", other, otherWant}} {
			if w.want && !notified(w.Watcher) {
				f.Errorf("%s: the watcher of %s was not told", name, w.name)
			} else if !silent(w.Watcher) {
				f.Errorf("%s: the watcher of %s was told", name, w.name)
			}
		}
		if !silent(stopped) {
			f.Errorf("%s: a stopped watcher was told", name)
		}
	}
	set := func(keys ...string) func(*store.Batch) {
		return func(b *store.Batch) {
			for _, key := range keys {
				b.Set([]byte(key), nil)
			}
		}
	}
	step("another key", set("m/3"), false, false)
	step("the prefix itself", set("m/1"), true, false)
	step("under it", set("m/11"), true, false)
	step("both", set("m/19", "m/2x"), true, true)
	step("delete", func(b *store.Batch) { b.Delete([]byte("m/19")) }, true, false)
	step("delete a range", func(b *store.Batch) { b.DeleteRange([]byte("m/1"), []byte("m/2")) }, true, false)
	step("delete a range around it", func(b *store.Batch) { b.DeleteRange([]byte("a"), []byte("z")) }, true, true)
	step("delete a range before it", func(b *store.Batch) { b.DeleteRange([]byte("a"), []byte("m/1")) }, false, false)

	// Any number of changes is one token.
	for range 100 {
		f.set("m/1", "")
	}
	if !notified(some) || !silent(some) {
		f.Error("100 changes that no watcher took note of are not one token")
	}
}

func testWatchAll(f *fixture) {
	const writers, each = 8, 100
	w := f.store.Watch([]byte("j/"))
	defer w.Stop()
	var group sync.WaitGroup
	for i := range writers {
		group.Go(func() {
			for n := range each {
				if _, err := f.store.Apply(sets(fmt.Sprintf("j/%d/%03d", i, n), "")); err != nil {
					f.Error(err)
				}
			}
		})
	}
	// A watcher that looks after each token sees the last change too.
	deadline := time.After(patience)
	for seen := 0; seen < writers*each; {
		select {
		case <-w.C:
			seen = len(f.scan(f.store, store.Prefix([]byte("j/"))))
		case <-deadline:
			f.Fatalf("no token any more, and %d of %d changes were seen", seen, writers*each)
		}
	}
	group.Wait()
}

func testReopen(f *fixture) {
	random := random(f.T)
	for range 5 {
		for range 50 {
			var b store.Batch
			for range 1 + random.IntN(4) {
				b.Set([]byte(awkward[random.IntN(len(awkward))]), fmt.Append(nil, random.Uint64()))
			}
			b.Delete([]byte(awkward[random.IntN(len(awkward))]))
			f.apply(&b)
		}
		before := f.everything()
		f.reopen()
		if after := f.everything(); !equal(before, after) {
			f.Fatalf("closed with%s\nand opened with%s", show(before), show(after))
		}
	}
}

func testClosed(f *fixture) {
	f.set("m/1", "one")
	w := f.store.Watch(nil)
	defer w.Stop()
	open, err := f.store.Snapshot()
	if err != nil {
		f.Fatal(err)
	}
	sequence := f.store.Scan(store.Range{})
	s := f.store
	f.close()

	closed := func(call string, err error) {
		f.Helper()
		if !errors.Is(err, store.ErrClosed) {
			f.Errorf("%s after Close: %v; want ErrClosed", call, err)
		}
	}
	_, err = s.Get([]byte("m/1"))
	closed("Get", err)
	_, err = entries(s, store.Range{})
	closed("Scan", err)
	for _, err = range sequence {
		closed("Scan from before", err)
	}
	_, err = s.Snapshot()
	closed("Snapshot", err)
	_, err = s.Apply(sets("m/2", "two"))
	closed("Apply", err)
	closed("Barrier", await(s.Barrier()))
	s.Watch(nil).Stop()
	if err := s.Close(); err != nil {
		closed("Close", err)
	}
	// A snapshot that outlives its store may still work or not, but it fails in an orderly way.
	if _, err := open.Get([]byte("m/1")); err != nil {
		closed("Get of a snapshot", err)
	}
	if _, err := entries(open, store.Range{}); err != nil {
		closed("Scan of a snapshot", err)
	}
	if err := open.Close(); err != nil {
		closed("Close of a snapshot", err)
	}
	f.open()
	if e := f.get("m/1"); string(e.Value) != "one" {
		f.Errorf("after reopening m/1 is %q", e.Value)
	}
	if f.get("m/2").Revision != 0 {
		f.Error("a batch that was refused is there after reopening")
	}
}

func testCloseCommits(f *fixture) {
	commits := make([]*store.Commit, 200)
	for i := range commits {
		commits[i] = f.apply(sets(fmt.Sprintf("m/%03d", i), ""))
	}
	barrier := f.store.Barrier()
	f.close()
	for _, c := range append(commits, barrier) {
		if done, err := c.Resolved(); !done || err != nil {
			f.Fatalf("after Close the commit of revision %d is decided: %t, %v", c.Revision, done, err)
		}
	}
	f.open()
	if n := len(f.everything()); n != len(commits) {
		f.Errorf("%d of %d batches are there", n, len(commits))
	}
}

func testCloseRaces(f *fixture) {
	const writers = 16
	var durable [writers]atomic.Int64 // the step that each has seen to be durable
	var steps atomic.Int64
	var group sync.WaitGroup
	s := f.store
	fine := func(err error) bool {
		if err != nil && !errors.Is(err, store.ErrClosed) {
			f.Errorf("a call that raced with Close: %v", err)
		}
		return err == nil
	}
	for w := range writers {
		group.Go(func() {
			for n := int64(1); ; n++ {
				c, err := s.Apply(sets(fmt.Sprintf("m/%02d", w), fmt.Sprint(n)))
				if !fine(err) {
					return
				}
				if err := await(c); !fine(err) {
					return
				}
				durable[w].Store(n)
				steps.Add(1)
			}
		})
	}
	for range 4 {
		group.Go(func() {
			for {
				if _, err := s.Get([]byte("m/01")); !fine(err) {
					return
				}
			}
		})
		group.Go(func() {
			for {
				if _, err := entries(s, store.Range{}); !fine(err) {
					return
				}
			}
		})
		group.Go(func() {
			for {
				n, err := s.Snapshot()
				if !fine(err) {
					return
				}
				_, err = entries(n, store.Range{})
				fine(err)
				fine(n.Close())
			}
		})
		group.Go(func() {
			for fine(await(s.Barrier())) {
				s.Watch([]byte("m/")).Stop()
			}
		})
	}
	w := s.Watch(nil)
	for steps.Load() < 5*writers && notified(w) { // all writers are at work
	}
	w.Stop()
	var closing sync.WaitGroup
	for range 2 {
		closing.Go(func() { fine(s.Close()) })
	}
	closing.Wait()
	group.Wait()
	f.store = nil
	f.open()
	for w := range writers {
		var n int64
		_, _ = fmt.Sscan(string(f.get(fmt.Sprintf("m/%02d", w)).Value), &n)
		if want := durable[w].Load(); n < want {
			f.Errorf("writer %d was told that step %d is durable, and step %d is there", w, want, n)
		}
	}
}
