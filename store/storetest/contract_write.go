package storetest

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"

	"kernos/store"
)

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
					_, _ = fmt.Sscan(string(e.Value), &n) // an unreadable value fails below
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
		f.set(fmt.Sprintf("m/%d", n), "") // nothing waits for the commit
		if f.get(fmt.Sprintf("m/%d", n)).Revision == 0 {
			f.Errorf("step %d is not seen by its writer", n)
		}
		written <- n
	}
	close(written)
	group.Wait()
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
	total := Sized(20_000)
	if *long {
		total = 100_000
	}
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

// testSeenWhole reads two keys that change together while they do: a reader that has seen the
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
