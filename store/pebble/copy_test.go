package pebble

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	crdb "github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"kernos/store"
)

// accepting is a publisher that accepts everything at once.
type accepting struct {
	number uint64
	bodies [][]byte // kept if keep is set
	keep   bool
}

func (a *accepting) Publish(number uint64, body []byte) {
	a.number = number
	if a.keep {
		a.bodies = append(a.bodies, body)
	}
}
func (a *accepting) Wait(uint64) error                   { return nil }
func (a *accepting) Accepted() (number, sequence uint64) { return a.number, a.number }
func (a *accepting) Pending() int                        { return 0 }
func (a *accepting) Holds() error                        { return nil }

func lead(t testing.TB, dir string, opts *Options, to Publisher) *Engine {
	t.Helper()
	opts.Copy = true
	e := mustOpen(t, dir, opts)
	if err := e.Place(Position{Epoch: 1}); err != nil {
		t.Fatal(err)
	}
	if err := e.Lead(to); err != nil {
		t.Fatal(err)
	}
	return e
}

// Groups that were followed make the store that their owner has, including the counter of revisions.
func TestFollow(t *testing.T) {
	to := &accepting{keep: true}
	e := lead(t, "owner", &Options{FS: vfs.NewMem()}, to)
	set(t, e, "m/1", "one")
	set(t, e, "m/2", "two")
	b := sets("m/3", "three")
	b.Delete([]byte("m/1"))
	b.DeleteRange([]byte("m/2"), []byte("m/25"))
	c, err := e.Apply(b)
	if err == nil {
		err = wait(c)
	}
	if err != nil {
		t.Fatal(err)
	}

	other := mustOpen(t, "copy", &Options{FS: vfs.NewMem(), Copy: true})
	at, err := other.Follow(to.bodies, Position{Epoch: 1, Sequence: 3, Accepted: 3, Number: 3})
	if err != nil {
		t.Fatal(err)
	}
	var sums []string
	for _, one := range []*Engine{e, other} {
		s, err := one.Snapshot()
		if err != nil {
			t.Fatal(err)
		}
		sum, err := Sum(s)
		if err = errors.Join(err, s.Close()); err != nil {
			t.Fatal(err)
		}
		sums = append(sums, sum)
	}
	if sums[0] != sums[1] {
		t.Errorf("the checksums are %v", sums)
	}
	if err := other.Lead(&accepting{number: 3}); err != nil {
		t.Fatal(err)
	}
	if got := set(t, other, "m/4", "four"); got <= c.Revision {
		t.Errorf("revision %d is given again after %d", got, c.Revision)
	}
	if got, there, err := other.Position(); err != nil || !there || got.Number != 4 || at.Link == 0 {
		t.Errorf("the position is %+v, %t, %v", got, there, err)
	}
}

// A copy takes no group but the next one, of its own schema.
func TestFollowRefuses(t *testing.T) {
	e := mustOpen(t, "copy", &Options{FS: vfs.NewMem(), Copy: true})
	first := appendSet(newBody(bodyForm, 2, 0, 0), []byte("m/1"), []byte("\x01one"))
	at, err := e.Follow([][]byte{first}, Position{Epoch: 1, Sequence: 1, Accepted: 1, Number: 1})
	if err != nil {
		t.Fatal(err)
	}
	next := at
	next.Sequence, next.Accepted, next.Number = 2, 2, 2
	header := newBody(bodyForm, 2, at.Link, 0)
	for name, c := range map[string]struct {
		body []byte
		want error
	}{
		"nothing":                {nil, ErrBody},
		"a newer form":           {[]byte{9}, ErrBody},
		"half a header":          {header[:4], ErrBody},
		"another link":           {newBody(bodyForm, 2, at.Link+1, 0), ErrUnlinked},
		"another beginning":      {newBody(foundForm, 2, 0, 0), ErrUnlinked},
		"a newer schema":         {newBody(bodyForm, 3, at.Link, 0), ErrBody},
		"an older schema":        {newBody(bodyForm, 1, at.Link, 0), ErrBody},
		"no revision":            {appendSet(header, []byte("m/2"), nil), ErrBody},
		"no key":                 {appendSet(header, nil, []byte("\x01")), ErrBody},
		"a key of the engine":    {appendSet(header, []byte(positionKey), []byte("\x01")), ErrBody},
		"the schema":             {appendSet(header, []byte(schemaKey), []byte("\x01")), ErrBody},
		"no counter":             {appendSet(header, []byte(revisionKey), nil), ErrBody},
		"a range of nothing":     {appendDeleteRange(header, []byte("m"), []byte("m")), ErrBody},
		"a range of the engine":  {appendDeleteRange(header, []byte{0}, []byte("m")), ErrBody},
		"a merge":                {append(bytes.Clone(header), byte(crdb.InternalKeyKindMerge), 1, 'm', 1, 1), ErrBody},
		"a length without text":  {append(bytes.Clone(header), kindSet, 200), ErrBody},
		"a length without end":   {append(bytes.Clone(header), kindSet, 0xFF), ErrBody},
		"a key without a value":  {append(bytes.Clone(header), kindSet, 1, 'm'), ErrBody},
		"a length that is large": {append(append(bytes.Clone(header), kindSet), "\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x01"...), ErrBody},
	} {
		if _, err := e.Follow([][]byte{c.body}, next); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", name, err)
		} else if _, ok := errors.AsType[*store.Error](err); !ok {
			t.Errorf("%s: %v has no code", name, err)
		}
	}
	if got, _, err := e.Position(); err != nil || got != at {
		t.Errorf("the position is %+v, %v", got, err)
	}
	if got := scanAll(t, e); len(got) != 1 {
		t.Errorf("the copy has %v", got)
	}
}

// holding is a publisher that accepts nothing until it is closed.
type holding struct {
	accepting
	end chan struct{}
}

func (h *holding) Publish(uint64, []byte) {}
func (h *holding) Wait(uint64) error {
	<-h.end
	return store.ErrClosed
}

// Groups are taken back whatever is known about their keys without asking Pebble: from the cache, the filter of
// absent keys, and the order of the journal.
func TestRewind(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for round := range 20 {
		disk := vfs.NewMem()
		h := &holding{end: make(chan struct{})}
		opts := &Options{FS: disk, Copy: true}
		e := mustOpen(t, "copy", opts)
		key := func() []byte {
			if random.IntN(3) == 0 {
				return fmt.Appendf(nil, "j%c%03d", "tp"[random.IntN(2)], random.IntN(100))
			}
			return fmt.Appendf(nil, "m/%02d", random.IntN(40))
		}
		body := newBody(bodyForm, 2, 0, 0)
		for i := range 30 {
			body = appendSet(body, key(), fmt.Append([]byte{byte(i + 1)}, i))
		}
		if _, err := e.Follow([][]byte{body}, Position{Epoch: 1, Sequence: 1, Accepted: 1, Number: 1}); err != nil {
			t.Fatal(err)
		}
		before := scanAll(t, e)
		h.number = 1
		if round%2 == 0 {
			e.absence.threshold = 1
		}
		if err := e.Lead(h); err != nil {
			t.Fatal(err)
		}
		pages, names := 0, [][]byte(nil)
		for range 30 {
			b := new(store.Batch)
			for range 1 + random.IntN(4) {
				k := key()
				if random.IntN(2) == 0 {
					if _, err := e.Get(key()); err != nil {
						t.Fatal(err)
					}
				}
				if random.IntN(3) == 0 {
					b.Delete(k)
				} else {
					b.Set(k, []byte("new"))
				}
			}
			if random.IntN(4) == 0 { // a page, and what is about it
				pages++
				page := binary.BigEndian.AppendUint64([]byte("jp"), uint64(pages)<<40|1<<62)
				name := append([]byte("jn12345678"), page[2:]...)
				b.Set(page, []byte("page"))
				b.Set(name, nil)
				names = append(names, name)
			} else if len(names) > 0 && random.IntN(4) == 0 {
				b.Delete(names[random.IntN(len(names))])
			}
			if _, err := e.Apply(b); err != nil {
				t.Fatal(err)
			}
			if random.IntN(3) == 0 {
				e.flush()
			}
		}
		after := scanAll(t, e)
		close(h.end)
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
		again := mustOpen(t, "copy", opts)
		if got := scanAll(t, again); fmt.Sprint(got) != fmt.Sprint(after) {
			t.Fatalf("round %d: the tail is not there", round)
		}
		groups, err := again.Rewind()
		if err != nil || groups == 0 {
			t.Fatalf("round %d: %d groups, %v", round, groups, err)
		}
		if got := scanAll(t, again); fmt.Sprint(got) != fmt.Sprint(before) {
			t.Fatalf("round %d:\n%v\nwant\n%v", round, got, before)
		}
		at, _, err := again.Position()
		if err != nil || at.Number != 1 || at.Sequence != 1 {
			t.Errorf("the position is %+v, %v", at, err)
		}
		if groups, err := again.Rewind(); err != nil || groups != 0 {
			t.Errorf("%d groups were taken back twice, %v", groups, err)
		}
		own, err := again.db.NewIter(undoRecords())
		if err != nil {
			t.Fatal(err)
		}
		if own.First() {
			t.Errorf("there is a record left: %q", own.Key())
		}
		if err := own.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// undoRecords returns the range of all undo records.
func undoRecords() *crdb.IterOptions {
	return &crdb.IterOptions{LowerBound: []byte(undoPrefix), UpperBound: store.After([]byte(undoPrefix))}
}

// Undo records don't stay when their groups are accepted, and a store that was closed has none.
func TestUndoRecordsGo(t *testing.T) {
	disk := vfs.NewMem()
	e := lead(t, "copy", &Options{FS: disk}, new(accepting))
	for i := range 100 {
		set(t, e, fmt.Sprint("m/", i%7), "value")
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	e = mustOpen(t, "copy", &Options{FS: disk, Copy: true})
	it, err := e.db.NewIter(undoRecords())
	if err != nil {
		t.Fatal(err)
	}
	if it.First() {
		t.Errorf("there is a record left: %q", it.Key())
	}
	if err := it.Close(); err != nil {
		t.Fatal(err)
	}
	if at, _, err := e.Position(); err != nil || at.Accepted != 100 || at.Number != 100 {
		t.Errorf("the position is %+v, %v", at, err)
	}
	if err := e.Leave(); err != nil {
		t.Fatal(err)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	mustOpen(t, "copy", &Options{FS: disk})
}

// A copy can be exported like other stores, without what is its own.
func TestExportOfCopy(t *testing.T) {
	dir := t.TempDir()
	e := lead(t, dir, new(Options), new(accepting))
	set(t, e, "m/1", "one")
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	var got []string
	if err := Export(dir, t.TempDir(), func(e store.Entry) error {
		got = append(got, string(e.Key))
		return nil
	}); err != nil || len(got) != 1 || got[0] != "m/1" {
		t.Errorf("%q, %v", got, err)
	}
	_, err := Open(dir, nil)
	fails(t, err, 503, "kernos cluster leave")
	_, err = OpenOrRead(dir, nil)
	fails(t, err, 503, "kernos cluster leave")
}

// A copy with an older schema isn't changed by itself.
func TestCopyIsNotMigrated(t *testing.T) {
	disk := vfs.NewMem()
	old := &schema{version: 1, kernos: "0.19.0"}
	e := mustOpen(t, "copy", &Options{FS: disk, Copy: true, schema: old})
	if err := e.Place(Position{Epoch: 1}); err != nil {
		t.Fatal(err)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	_, err := Open("copy", &Options{FS: disk, Copy: true})
	fails(t, err, 503, "older form", "0.19.0")
	mustOpen(t, "copy", &Options{FS: disk, Copy: true, schema: old})
}

func FuzzBody(f *testing.F) {
	body := appendSet(newBody(bodyForm, 2, 7, 0), []byte("m/1"), []byte("\x01one"))
	f.Add(appendDeleteRange(body, []byte("m"), []byte("n")))
	f.Add(appendSet(body, []byte(revisionKey), []byte{5}))
	f.Add(append(body, kindDelete, 1, 'm'))
	f.Fuzz(func(t *testing.T, body []byte) {
		_, _, changes, err := parseHead(2, body)
		if err != nil {
			return
		}
		var again []byte
		err = parseChanges(changes, func(kind byte, key, value []byte) error {
			switch kind {
			case kindSet:
				again = appendSet(again, key, value)
			case kindDeleteRange:
				again = appendDeleteRange(again, key, value)
			}
			if foreign(key) && string(key) != revisionKey {
				t.Errorf("the key %q", key)
			}
			return nil
		})
		if err == nil && len(again) > len(changes) {
			t.Errorf("%d bytes became %d", len(changes), len(again))
		}
	})
}

func FuzzPosition(f *testing.F) {
	f.Add(Position{1, 2, 3, 4, 5}.encode(nil))
	f.Add([]byte{1, 0, 0, 9, 1, 0})
	f.Fuzz(func(t *testing.T, stored []byte) {
		p, ok := parsePosition(stored)
		if !ok {
			return
		}
		if again, ok := parsePosition(p.encode(nil)); !ok || again != p {
			t.Errorf("%+v became %+v", p, again)
		}
	})
}

func FuzzUndo(f *testing.F) {
	record := appendUndo(nil, []byte("m/1"), []byte("\x01one"), true)
	record = appendUndoEntry(record, []byte("m/2"), &store.Entry{Value: []byte("two"), Revision: 300})
	f.Add(appendUndo(record, []byte("m/3"), nil, false))
	f.Fuzz(func(t *testing.T, stored []byte) {
		all, err := parseUndo(stored)
		if err != nil {
			return
		}
		var again []byte
		for i := len(all) - 1; i >= 0; i-- {
			again = appendUndo(again, all[i].key, all[i].value, all[i].there)
		}
		if len(again) > len(stored) {
			t.Errorf("%q became %q", stored, again)
		}
	})
}

// What a publisher costs, without the way to other machines. Compare with BenchmarkWriters and BenchmarkSequential.
func BenchmarkWritersPublished(b *testing.B) {
	e := lead(b, b.TempDir(), new(Options), new(accepting))
	var batches [writers]store.Batch
	share(b, func(w, n int) error {
		stage(&batches[w], n)
		c, err := e.Apply(&batches[w])
		if err != nil {
			return err
		}
		return c.Wait(b.Context())
	})
}

func BenchmarkSequentialPublished(b *testing.B) {
	e := lead(b, b.TempDir(), new(Options), new(accepting))
	var batch store.Batch
	b.ReportAllocs()
	for n := 0; b.Loop(); n++ {
		stage(&batch, n)
		c, err := e.Apply(&batch)
		if err == nil {
			err = c.Wait(b.Context())
		}
		if err != nil {
			b.Fatal(err)
		}
	}
}
