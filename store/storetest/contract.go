package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"kernos/store"
)

// contract has a test for each promise of package store. Each starts with an empty
// store, and leaves one that can be closed.
var contract = []struct {
	name string
	test func(*fixture)
}{
	{"Empty", testEmpty},
	{"Get", testGet},
	{"Ranges", testRanges},
	{"ScanReadsOneState", testScanState},
	{"ScanStops", testScanStops},
	{"BatchIsCopied", testBatchCopied},
	{"BatchIsReused", testBatchReused},
	{"BatchIsInOrder", testBatchOrder},
	{"BatchIsRefused", testBatchRefused},
	{"DeleteRange", testDeleteRange},
	{"Revisions", testRevisions},
	{"Conditions", testConditions},
	{"OneOfManyIsFirst", testFirst},
	{"Counter", testCounter},
	{"Snapshots", testSnapshots},
	{"GetAll", testGetAll},
	{"BatchIsSeenWhole", testSeenWhole},
	{"VisibleAtOnce", testVisible},
	{"CommitsInOrder", testCommits},
	{"Barrier", testBarrier},
	{"WatchTells", testWatch},
	{"WatchMissesNothing", testWatchAll},
	{"Reopen", testReopen},
	{"Closed", testClosed},
	{"CloseCommits", testCloseCommits},
	{"CloseRaces", testCloseRaces},
	{"LargeValues", testLarge},
	{"ManyKeys", testMany},
	{"Writers", testWriters},
}

func testEmpty(f *fixture) {
	for range 2 {
		if all := f.everything(); len(all) != 0 {
			f.Errorf("a new store shows %s", show(all))
		}
		f.wait(f.store.Barrier())
		f.reopen() // what the engine itself keeps must not be seen either
	}
	f.wait(f.apply(new(store.Batch)))
	if all := f.everything(); len(all) != 0 {
		f.Errorf("after an empty batch there is %s", show(all))
	}
}

func testGet(f *fixture) {
	if e := f.get("m/1"); e.Revision != 0 || len(e.Value) != 0 {
		f.Errorf("an absent key: revision %d, value %q", e.Revision, e.Value)
	}
	for _, key := range []string{"", "\x00", "\x00\x00", "\x00revision"} {
		if e, err := f.store.Get([]byte(key)); err == nil && e.Revision != 0 {
			f.Errorf("the key %q, which nobody can set, has revision %d", key, e.Revision)
		}
	}
	r := f.apply(sets("m/1", "one", "m/2", "")).Revision
	if e := f.get("m/1"); string(e.Key) != "m/1" || string(e.Value) != "one" || e.Revision != r {
		f.Errorf("got %q=%q@%d", e.Key, e.Value, e.Revision)
	}
	if e := f.get("m/2"); len(e.Value) != 0 || e.Revision != r {
		f.Errorf("a key with an empty value: %q@%d; it is there", e.Value, e.Revision)
	}
	if e := f.get("m/"); e.Revision != 0 {
		f.Error("a prefix of a key is not that key")
	}

	// The value that Get returns is the caller's, and so is the key that it was asked for.
	key := []byte("m/1")
	e, err := f.store.Get(key)
	if err != nil {
		f.Fatal(err)
	}
	kept := e.Value
	f.set("m/1", "two")
	if string(kept) != "one" {
		f.Errorf("the value that Get had returned changed to %q", kept)
	}
	overwrite(kept)
	overwrite(key)
	if e := f.get("m/1"); string(e.Value) != "two" {
		f.Errorf("writing into an old value changed the store: %q", e.Value)
	}
}

// awkward are keys at the edges of every comparison and prefix.
var awkward = []string{
	"\x01", "\x01\x00", "\x01\x00\x00", "\x01\x01", "\x01\xff",
	"a", "a\x00", "a\x00\x00", "aa", "a\xff", "a\xff\xff", "a\xff\xff\x01",
	"b", "m/", "m//", "m/1", "m/10", "m/2", "\x7f", "\x80", "\xfe\xff", "\xfe\xff\xff",
	"\xff", "\xff\x00", "\xff\xff", "\xff\xff\x01", "\xff\xff\xff",
}

func testRanges(f *fixture) {
	model := NewMemory()
	var b store.Batch
	for _, i := range rand.Perm(len(awkward)) {
		b.Reset()
		b.Set([]byte(awkward[i]), []byte(awkward[i]))
		f.apply(&b)
		if _, err := model.Apply(&b); err != nil {
			f.Fatal(err)
		}
	}
	bounds := [][]byte{nil, {}}
	for _, key := range awkward {
		bounds = append(bounds, []byte(key), []byte(key+"\x00"))
	}
	check := func(keys store.Range) {
		got, want := f.scan(f.store, keys), f.scan(model, keys)
		if !slices.EqualFunc(got, want, func(a, b store.Entry) bool {
			return bytes.Equal(a.Key, b.Key) && bytes.Equal(a.Value, b.Value)
		}) {
			f.Errorf("from %q to %q (nil: %t), reverse %t:%s\nwant:%s",
				keys.From, keys.To, keys.To == nil, keys.Reverse, show(got), show(want))
		}
	}
	for _, from := range bounds {
		for _, to := range bounds { // some end before they begin
			check(store.Range{From: from, To: to})
			check(store.Range{From: from, To: to, Reverse: true})
		}
		prefix := store.Prefix(from)
		check(prefix)
		for _, e := range f.scan(f.store, prefix) {
			if !bytes.HasPrefix(e.Key, from) {
				f.Errorf("%q does not begin with %q", e.Key, from)
			}
		}
		prefix.Reverse = true
		check(prefix)
	}
}

func testScanState(f *fixture) {
	for i := range 100 {
		f.set(fmt.Sprintf("m/%03d", i), "old")
	}
	before := f.everything()
	var seen []store.Entry
	for e, err := range f.store.Scan(store.Range{}) {
		if err != nil {
			f.Fatal(err)
		}
		if len(seen) == 10 {
			var b store.Batch
			b.DeleteRange([]byte("m/050"), []byte("m/060"))
			b.Set([]byte("m/070"), []byte("new"))
			b.Set([]byte("m/0705"), []byte("new"))
			f.apply(&b)
			if e := f.get("m/055"); e.Revision != 0 { // reading while reading
				f.Error("a deleted key is seen by Get during a scan")
			}
			if n := len(f.scan(f.store, store.Prefix([]byte("m/05")))); n != 0 {
				f.Errorf("a scan within a scan sees %d deleted keys", n)
			}
		}
		seen = append(seen, store.Entry{Key: bytes.Clone(e.Key), Value: bytes.Clone(e.Value), Revision: e.Revision})
	}
	if !equal(before, seen) {
		f.Errorf("a scan saw a mixture of two states:%s", show(seen))
	}
}

func testScanStops(f *fixture) {
	for i := range 10 {
		f.set(fmt.Sprintf("m/%d", i), "")
	}
	again := f.store.Scan(store.Prefix([]byte("m/")))
	for range 3 { // a sequence may be gone through more than once
		n := 0
		for _, err := range again {
			if err != nil {
				f.Fatal(err)
			}
			if n++; n == 4 {
				break
			}
		}
		if n != 4 {
			f.Errorf("saw %d entries", n)
		}
	}
	func() { // a panic of the caller must not leave the store unable to close
		defer func() { _ = recover() }()
		for range f.store.Scan(store.Range{}) {
			panic("of the caller")
		}
	}()
	f.reopen()
}

func testBatchCopied(f *fixture) {
	key, value := []byte("m/1"), []byte("value")
	from, to := []byte("m/5"), []byte("m/7")
	for _, k := range []string{"m/5", "m/6", "m/7"} {
		f.set(k, "")
	}
	var b store.Batch
	b.IfAbsent(key)
	b.Set(key, value)
	b.DeleteRange(from, to)
	c := f.apply(&b)
	for _, s := range [][]byte{key, value, from, to} {
		overwrite(s)
	}
	clear(b.Ops)
	check := func() {
		f.Helper()
		var keys []string
		for _, e := range f.everything() {
			keys = append(keys, string(e.Key)+"="+string(e.Value))
		}
		if want := []string{"m/1=value", "m/7="}; !slices.Equal(keys, want) {
			f.Errorf("there is %q, want %q: the batch was not copied", keys, want)
		}
	}
	check()
	f.wait(c)
	f.reopen()
	check()
}

func testBatchReused(f *fixture) {
	var b store.Batch
	buffer := make([]byte, 0, 64)
	for i := range 1000 {
		b.Reset()
		buffer = fmt.Appendf(buffer[:0], "m/%04d", i)
		b.Set(buffer, buffer[2:])
		f.apply(&b)
	}
	f.reopen()
	all := f.everything()
	if len(all) != 1000 {
		f.Fatalf("%d keys of 1000", len(all))
	}
	for i, e := range all {
		if want := fmt.Sprintf("m/%04d", i); string(e.Key) != want || string(e.Value) != want[2:] {
			f.Fatalf("key %d is %q=%q", i, e.Key, e.Value)
		}
	}
}

func testBatchOrder(f *fixture) {
	f.set("m/a", "before")
	var b store.Batch
	b.Set([]byte("m/1"), []byte("first"))
	b.Set([]byte("m/1"), []byte("second"))
	b.Set([]byte("m/2"), []byte("gone"))
	b.Delete([]byte("m/2"))
	b.Delete([]byte("m/3"))
	b.Set([]byte("m/3"), []byte("set"))
	b.Set([]byte("m/4"), []byte("gone"))
	b.DeleteRange([]byte("m/4"), []byte("m/6"))
	b.Set([]byte("m/5"), []byte("set"))
	b.DeleteRange([]byte("m/a"), []byte("m/b"))
	r := f.apply(&b).Revision
	want := []store.Entry{
		{Key: []byte("m/1"), Value: []byte("second"), Revision: r},
		{Key: []byte("m/3"), Value: []byte("set"), Revision: r},
		{Key: []byte("m/5"), Value: []byte("set"), Revision: r},
	}
	for range 2 {
		if got := f.everything(); !equal(got, want) {
			f.Errorf("got%s\nwant%s", show(got), show(want))
		}
		f.reopen()
	}
}

func testBatchRefused(f *fixture) {
	f.set("m/1", "one")
	before := f.everything()
	for name, bad := range map[string]store.Op{
		"empty key":     {Kind: store.OpSet},
		"zero byte":     {Kind: store.OpSet, Key: []byte("\x00a")},
		"range of none": {Kind: store.OpDeleteRange, Key: []byte("m/2"), Value: []byte("m/1")},
		"no end":        {Kind: store.OpDeleteRange, Key: []byte("m/2")},
		"unknown kind":  {Kind: 9, Key: []byte("m/2")},
		"no kind":       {Key: []byte("m/2")},
	} {
		b := sets("m/1", "changed")
		b.Ops = append(b.Ops, bad)
		if _, err := f.store.Apply(b); err == nil || !coded(err) {
			f.Errorf("%s: %v; want an error with a code", name, err)
		}
	}
	if after := f.everything(); !equal(before, after) {
		f.Errorf("a batch that was refused changed something:%s", show(after))
	}
}

func testDeleteRange(f *fixture) {
	keys := func() (n int) { return len(f.everything()) }
	for i := range 1000 {
		f.apply(sets(fmt.Sprintf("m/%03d", i), "x"))
	}
	remove := func(from, to string, want int) {
		f.Helper()
		var b store.Batch
		b.DeleteRange([]byte(from), []byte(to))
		f.apply(&b)
		if got := keys(); got != want {
			f.Errorf("after deleting from %q to %q there are %d keys, want %d", from, to, got, want)
		}
	}
	remove("m/100", "m/100", 1000) // empty
	remove("m/100", "m/101", 999)
	remove("m/100", "m/200", 900)
	remove("m/9999", "n", 900)
	if f.get("m/099").Revision == 0 || f.get("m/100").Revision != 0 || f.get("m/200").Revision == 0 {
		f.Error("the range has the wrong bounds")
	}
	f.set("m/150", "again")
	f.reopen()
	if got := keys(); got != 901 {
		f.Errorf("after reopening there are %d keys, want 901", got)
	}
	if e := f.get("m/150"); string(e.Value) != "again" {
		f.Errorf("a key that was set after its range was deleted is %q", e.Value)
	}
	remove("\x01", "\xff\xff", 0)
}

func testRevisions(f *fixture) {
	var last store.Revision
	grow := func(r store.Revision) store.Revision {
		f.Helper()
		if r <= last {
			f.Fatalf("revision %d after %d", r, last)
		}
		last = r
		return r
	}
	first := grow(f.apply(sets("m/1", "1", "m/2", "1")).Revision)
	second := grow(f.set("m/2", "2"))
	for range 2 {
		if got := f.get("m/1").Revision; got != first {
			f.Errorf("m/1 has revision %d, want %d", got, first)
		}
		if got := f.get("m/2").Revision; got != second {
			f.Errorf("m/2 has revision %d, want %d", got, second)
		}
		f.reopen()
	}
	grow(f.set("m/3", "3"))

	// A key that comes back has a revision that it never had.
	var b store.Batch
	b.Delete([]byte("m/3"))
	grow(f.apply(&b).Revision)
	if e := f.get("m/3"); e.Revision != 0 || len(e.Value) != 0 {
		f.Errorf("a deleted key has revision %d", e.Revision)
	}
	f.reopen() // the deleting batch was the last one: its revision is in no key
	grow(f.set("m/3", "3"))
	b.Reset()
	b.DeleteRange([]byte("m"), []byte("n"))
	grow(f.apply(&b).Revision)
	for range 3 {
		f.reopen() // nothing is there that has a revision
		grow(f.set("m/4", "4"))
		b.Reset()
		b.Delete([]byte("m/4"))
		grow(f.apply(&b).Revision)
	}
}

func testConditions(f *fixture) {
	r1, r2 := f.set("m/1", "1"), f.set("m/2", "2")
	type condition struct {
		key      string
		revision store.Revision
	}
	try := func(want bool, conditions ...condition) {
		f.Helper()
		before := f.everything()
		var b store.Batch
		b.Set([]byte("m/9"), []byte("x"))
		b.Delete([]byte("m/8"))
		for _, c := range conditions {
			b.IfRevision([]byte(c.key), c.revision)
		}
		c, err := f.store.Apply(&b)
		switch {
		case want && err != nil:
			f.Errorf("conditions %v hold: %v", conditions, err)
		case want:
			f.wait(c)
		case !errors.Is(err, store.ErrConflict):
			f.Errorf("conditions %v do not hold, and Apply says: %v", conditions, err)
		default:
			if after := f.everything(); !equal(before, after) {
				f.Errorf("a conflict changed something:%s", show(after))
			}
		}
	}
	try(true, condition{"m/1", r1})
	try(true, condition{"m/1", r1}, condition{"m/2", r2}, condition{"m/3", 0})
	try(true, condition{"m/1", r1}, condition{"m/1", r1})
	try(false, condition{"m/1", r2})
	try(false, condition{"m/1", r2 + 1000})
	try(false, condition{"m/1", 0})
	try(false, condition{"m/3", r1})
	try(false, condition{"m/", r1})
	try(false, condition{"m/1", r1}, condition{"m/2", r1})
	try(false, condition{"m/1", 0}, condition{"m/2", r2})
	try(false, condition{"m/1", r1}, condition{"m/1", r2})
	for _, key := range []string{"m/1", "m/3"} { // without changes
		var b store.Batch
		b.IfAbsent([]byte(key))
		_, err := f.store.Apply(&b)
		if conflict := errors.Is(err, store.ErrConflict); conflict != (key == "m/1") {
			f.Errorf("only a condition, that %s is absent: %v", key, err)
		}
	}

	// They are about what was before the batch, not about what it does itself.
	var b store.Batch
	b.Set([]byte("m/new"), nil)
	b.IfAbsent([]byte("m/new"))
	c := f.apply(&b)
	b.Reset()
	b.Delete([]byte("m/new"))
	b.IfRevision([]byte("m/new"), c.Revision)
	f.apply(&b)
	try(true, condition{"m/new", 0})
	r1 = f.set("m/1", "again")
	try(true, condition{"m/1", r1})
	f.reopen()
	try(true, condition{"m/1", r1}, condition{"m/2", r2}, condition{"m/new", 0})
	try(false, condition{"m/1", r1 - 1})
}

func testFirst(f *fixture) {
	const contenders = 64
	for round := range 20 {
		key := fmt.Appendf(nil, "m/%d", round)
		var won atomic.Int32
		var group sync.WaitGroup
		for i := range contenders {
			group.Go(func() {
				var b store.Batch
				b.IfAbsent(key)
				b.Set(key, fmt.Append(nil, i))
				switch _, err := f.store.Apply(&b); {
				case err == nil:
					won.Add(1)
				case !errors.Is(err, store.ErrConflict):
					f.Error(err)
				}
			})
		}
		group.Wait()
		if n := won.Load(); n != 1 {
			f.Fatalf("%d of %d contenders were first", n, contenders)
		}
	}
}

func testCounter(f *fixture) {
	const writers, each = 16, 50
	key := []byte("m/counter")
	var group sync.WaitGroup
	for range writers {
		group.Go(func() {
			for done := 0; done < each; {
				e, err := f.store.Get(key)
				if err != nil {
					f.Error(err)
					return
				}
				n := 0
				if e.Revision != 0 {
					_, _ = fmt.Sscan(string(e.Value), &n) // what is unreadable fails below
				}
				var b store.Batch
				b.IfRevision(key, e.Revision)
				b.Set(key, fmt.Append(nil, n+1))
				b.Set(fmt.Appendf(nil, "j/%05d", n+1), nil)
				switch _, err := f.store.Apply(&b); {
				case err == nil:
					done++
				case !errors.Is(err, store.ErrConflict):
					f.Error(err)
					return
				}
			}
		})
	}
	group.Wait()
	if got := string(f.get("m/counter").Value); got != fmt.Sprint(writers*each) {
		f.Errorf("counted to %s, want %d", got, writers*each)
	}
	if n := len(f.scan(f.store, store.Prefix([]byte("j/")))); n != writers*each {
		f.Errorf("%d steps, want %d", n, writers*each)
	}
}

func testSnapshots(f *fixture) {
	type taken struct {
		snapshot store.Snapshot
		entries  []store.Entry
	}
	var all []taken
	random := random(f.T)
	for step := range 30 {
		var b store.Batch
		for range 5 {
			b.Set(fmt.Appendf(nil, "m/%02d", random.IntN(40)), fmt.Append(nil, step))
			b.Delete(fmt.Appendf(nil, "m/%02d", random.IntN(40)))
		}
		if step%7 == 0 {
			b.DeleteRange([]byte("m/10"), []byte("m/20"))
		}
		f.apply(&b)
		s, err := f.store.Snapshot()
		if err != nil {
			f.Fatal(err)
		}
		all = append(all, taken{s, f.everything()})
	}
	f.wait(f.store.Barrier())
	check := func(from int) {
		f.Helper()
		for i, s := range all[from:] {
			if got := f.scan(s.snapshot, store.Range{}); !equal(got, s.entries) {
				f.Errorf("snapshot %d changed:%s\nwas%s", from+i, show(got), show(s.entries))
			}
			for _, e := range s.entries {
				if got := getFrom(f, s.snapshot, string(e.Key)); !same(got, e) {
					f.Errorf("snapshot %d has %s, and had %s", from+i, show([]store.Entry{got}), show([]store.Entry{e}))
				}
			}
			backward := f.scan(s.snapshot, store.Range{Reverse: true})
			slices.Reverse(backward)
			if !equal(backward, s.entries) {
				f.Errorf("snapshot %d backward:%s", from+i, show(backward))
			}
		}
	}
	check(0)
	for i, s := range all {
		if err := s.snapshot.Close(); err != nil {
			f.Error(err)
		}
		if i%10 == 9 {
			check(i + 1)
		}
	}
}

func testVisible(f *fixture) {
	written := make(chan int)
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			for n := range written {
				if e, err := f.store.Get(fmt.Appendf(nil, "m/%d", n)); err != nil || e.Revision == 0 {
					f.Errorf("step %d was applied and is not seen: %v", n, err)
				}
				s, err := f.store.Snapshot()
				if err != nil {
					f.Error(err)
					continue
				}
				if e, err := s.Get(fmt.Appendf(nil, "m/%d", n)); err != nil || e.Revision == 0 {
					f.Errorf("step %d was applied and is not in a snapshot: %v", n, err)
				}
				if err := s.Close(); err != nil {
					f.Error(err)
				}
			}
		})
	}
	for n := range 500 {
		f.set(fmt.Sprintf("m/%d", n), "") // nobody waits for the commit
		if f.get(fmt.Sprintf("m/%d", n)).Revision == 0 {
			f.Errorf("step %d is not seen by its writer", n)
		}
		written <- n
	}
	close(written)
	group.Wait()
}

func testCommits(f *fixture) {
	const steps = 1000
	commits := make([]*store.Commit, steps)
	var mu sync.Mutex
	decided := make([]int, 0, steps)
	for i := range commits {
		commits[i] = f.apply(sets(fmt.Sprintf("m/%d", i%10), fmt.Sprint(i)))
		commits[i].Then(func(err error) {
			if err != nil {
				f.Errorf("commit %d: %v", i, err)
			}
			mu.Lock()
			defer mu.Unlock()
			decided = append(decided, i)
		})
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
	f.close() // what it told is told by now
	mu.Lock()
	defer mu.Unlock()
	if len(decided) != steps || !slices.IsSorted(decided) {
		f.Errorf("%d of %d commits were told of, in order: %t", len(decided), steps, slices.IsSorted(decided))
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

// told waits for a token.
func told(w *store.Watcher) bool {
	select {
	case <-w.C:
		return true
	case <-time.After(patience):
		return false
	}
}

// silent reports whether there is no token. All those before it have been told of when
// another watcher of the same change has been.
func silent(w *store.Watcher) bool {
	select {
	case <-w.C:
		return false
	default:
		return true
	}
}

func testWatch(f *fixture) {
	f.set("m/0", "before")
	prefix := []byte("m/1")
	some, other := f.store.Watch(prefix), f.store.Watch([]byte("m/2"))
	overwrite(prefix) // it was copied
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
		if !told(every) {
			f.Fatalf("%s: the watcher of everything was not told", name)
		}
		for _, w := range []struct {
			name string
			*store.Watcher
			want bool
		}{{"m/1", some, someWant}, {"m/2", other, otherWant}} {
			if w.want && !told(w.Watcher) {
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
	if !told(some) || !silent(some) {
		f.Error("100 changes that nobody took note of are not one token")
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
	// Whoever looks after each token sees the last change too.
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
	// A snapshot that outlives its store may go on or not, but it fails in an orderly way.
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
	for steps.Load() < 5*writers && told(w) { // everybody is at work
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

func testLarge(f *fixture) {
	random := random(f.T)
	value := func(size int) []byte { return noise(random, size) }
	want := map[string][]byte{"m/0": value(1 << 20), "m/1": value(4 << 20), string(append([]byte("m/"), bytes.Repeat([]byte("k"), 4096)...)): value(1)}
	var b store.Batch
	for key, v := range want {
		b.Set([]byte(key), v)
	}
	f.wait(f.apply(&b))
	for i := range 8 { // together, in one batch
		key := fmt.Sprintf("m/many/%d", i)
		want[key] = value(1 << 20)
	}
	b.Reset()
	for key, v := range want {
		b.Set([]byte(key), v)
	}
	f.wait(f.apply(&b))
	for range 2 {
		for key, v := range want {
			if e := f.get(key); !bytes.Equal(e.Value, v) {
				f.Errorf("%.20q has %d bytes, which are not the %d that were set", key, len(e.Value), len(v))
			}
		}
		n := 0
		for e, err := range f.store.Scan(store.Range{}) {
			if err != nil {
				f.Fatal(err)
			}
			if !bytes.Equal(e.Value, want[string(e.Key)]) {
				f.Errorf("a scan shows %.20q with another value", e.Key)
			}
			n++
		}
		if n != len(want) {
			f.Errorf("a scan shows %d of %d entries", n, len(want))
		}
		f.reopen()
	}
}

func testMany(f *fixture) {
	const each = 500
	total := Sized(100_000)
	key := func(n int) []byte { return fmt.Appendf(nil, "m/%06d", n) }
	order := rand.Perm(total)
	var b store.Batch
	for from := 0; from < total; from += each {
		b.Reset()
		for _, n := range order[from : from+each] {
			b.Set(key(n), key(n))
		}
		f.apply(&b)
	}
	f.wait(f.store.Barrier())
	count := func(r store.Range, first, n int) {
		f.Helper()
		step := 1
		if r.Reverse {
			step = -1
		}
		at := first
		for e, err := range f.store.Scan(r) {
			if err != nil {
				f.Fatal(err)
			}
			if want := string(key(at)); string(e.Key) != want || string(e.Value) != want {
				f.Fatalf("found %q=%q at %s", e.Key, e.Value, want)
			}
			at += step
		}
		if got := (at - first) * step; got != n {
			f.Errorf("%d keys, want %d", got, n)
		}
	}
	middle := store.Range{From: key(total / 2), To: key(total/2 + 100)}
	for range 2 {
		count(store.Prefix([]byte("m/")), 0, total)
		count(store.Range{Reverse: true}, total-1, total)
		count(middle, total/2, 100)
		count(store.Range{From: middle.From, To: middle.To, Reverse: true}, total/2+99, 100)
		f.reopen()
	}
	b.Reset()
	b.DeleteRange(key(100), key(total-100))
	f.wait(f.apply(&b))
	if n := len(f.everything()); n != 200 {
		f.Errorf("%d keys are left, want 200", n)
	}
}

func testWriters(f *fixture) {
	const writers, each = 64, 25
	var mu sync.Mutex
	revisions := make(map[store.Revision]bool)
	var group sync.WaitGroup
	for w := range writers {
		group.Go(func() {
			for n := range each {
				step := fmt.Sprintf("%02d/%03d", w, n)
				c, err := f.store.Apply(sets("m/"+step, step, "j/"+step, step))
				if err != nil {
					f.Error(err)
					return
				}
				if err := await(c); err != nil {
					f.Error(err)
					return
				}
				mu.Lock()
				if revisions[c.Revision] {
					f.Errorf("two batches have revision %d", c.Revision)
				}
				revisions[c.Revision] = true
				mu.Unlock()
			}
		})
	}
	group.Wait()
	for range 2 {
		index := f.scan(f.store, store.Prefix([]byte("j/")))
		values := f.scan(f.store, store.Prefix([]byte("m/")))
		if len(index) != writers*each || len(values) != writers*each {
			f.Fatalf("%d and %d entries, want %d", len(index), len(values), writers*each)
		}
		for i, e := range values {
			if !bytes.Equal(e.Key[2:], index[i].Key[2:]) || e.Revision != index[i].Revision || !revisions[e.Revision] {
				f.Fatalf("%q@%d and %q@%d belong together", e.Key, e.Revision, index[i].Key, index[i].Revision)
			}
		}
		f.reopen()
	}
}

// testGetAll compares with Get, for engines that have it.
func testGetAll(f *fixture) {
	for i := range 50 {
		f.set(fmt.Sprintf("m/%02d", i*2), fmt.Sprint(i))
	}
	s, err := f.store.Snapshot()
	if err != nil {
		f.Fatal(err)
	}
	many, ok := s.(store.Getter)
	if !ok {
		if err := s.Close(); err != nil {
			f.Error(err)
		}
		return
	}
	f.set("m/04", "later")
	var keys [][]byte
	for i := range 100 {
		if i%7 != 3 {
			keys = append(keys, fmt.Appendf(nil, "m/%02d", i))
		}
	}
	n := 0
	for e, err := range many.GetAll(keys) {
		if err != nil {
			f.Fatal(err)
		}
		want, err := s.Get(keys[n])
		if err != nil || !bytes.Equal(e.Key, keys[n]) || !bytes.Equal(e.Value, want.Value) || e.Revision != want.Revision {
			f.Errorf("%s is %q@%d, and Get says %q@%d, %v", keys[n], e.Value, e.Revision, want.Value, want.Revision, err)
		}
		n++
	}
	if n != len(keys) {
		f.Errorf("%d keys got %d entries", len(keys), n)
	}
	for range many.GetAll(nil) {
		f.Error("no keys have an entry")
	}
	for range many.GetAll(keys) {
		break // and its iterator is closed
	}
	if err := s.Close(); err != nil {
		f.Error(err)
	}
	for _, err := range many.GetAll(keys) {
		if !errors.Is(err, store.ErrClosed) {
			f.Errorf("after Close: %v", err)
		}
	}
}

// testSeenWhole reads two keys that change together while they do: whoever has seen the
// one sees the other at least as new, and never goes back.
func testSeenWhole(f *fixture) {
	f.apply(sets("m/a", "0", "m/b", "0"))
	stop := make(chan struct{})
	var readers sync.WaitGroup
	for range 3 {
		readers.Go(func() {
			var last store.Revision
			for {
				select {
				case <-stop:
					return
				default:
				}
				a, err := f.store.Get([]byte("m/a"))
				b, errB := f.store.Get([]byte("m/b"))
				if err != nil || errB != nil {
					f.Error(err, errB)
					return
				}
				if b.Revision < a.Revision || a.Revision < last {
					f.Errorf("one key is at revision %d, the other at %d, and revision %d was seen before", a.Revision, b.Revision, last)
					return
				}
				last = b.Revision
			}
		})
	}
	for i := range 3000 {
		f.apply(sets("m/a", fmt.Sprint(i), "m/b", fmt.Sprint(i)))
	}
	close(stop)
	readers.Wait()
}
