package storetest

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
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
		f.reopen() // the engine's own keys must not be seen either
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
			f.Errorf("the key %q, which can't be set, has revision %d", key, e.Revision)
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

	// The value that Get returns stays as it is, and the key that it was asked for is the
	// caller's.
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
	overwrite(key)
	if e := f.get("m/1"); string(e.Value) != "two" {
		f.Errorf("writing into a key changed the store: %q", e.Value)
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

// notified waits for a token.
func notified(w *store.Watcher) bool {
	select {
	case <-w.C:
		return true
	case <-time.After(patience):
		return false
	}
}

// silent reports whether there is no token. When another watcher of a change has its token, all
// watchers of that change have theirs.
func silent(w *store.Watcher) bool {
	select {
	case <-w.C:
		return false
	default:
		return true
	}
}

// testGetAll compares GetAll with Get.
func testGetAll(f *fixture) {
	for i := range 50 {
		f.set(fmt.Sprintf("m/%02d", i*2), fmt.Sprint(i))
	}
	s, err := f.store.Snapshot()
	if err != nil {
		f.Fatal(err)
	}
	f.set("m/04", "later")
	var keys [][]byte
	for i := range 100 {
		if i%7 != 3 {
			keys = append(keys, fmt.Appendf(nil, "m/%02d", i))
		}
	}
	n := 0
	for e, err := range s.GetAll(keys) {
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
	for range s.GetAll(nil) {
		f.Error("no keys have an entry")
	}
	for range s.GetAll(keys) {
		break // and its iterator is closed
	}
	if err := s.Close(); err != nil {
		f.Error(err)
	}
	for _, err := range s.GetAll(keys) {
		if !errors.Is(err, store.ErrClosed) {
			f.Errorf("after Close: %v", err)
		}
	}
}
