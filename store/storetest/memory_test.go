package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"

	"kernos/store"
)

func keysOf(t *testing.T, r store.Reader) string {
	t.Helper()
	all, err := entries(r, store.Range{})
	if err != nil {
		t.Fatal(err)
	}
	var keys []byte
	for _, e := range all {
		keys = append(keys, e.Key...)
	}
	return string(keys)
}

func TestMemoryManual(t *testing.T) {
	m := NewMemory()
	m.Manual()
	if done, _ := m.Barrier().Resolved(); !done {
		t.Error("nothing was applied, and the barrier waits")
	}
	var order []int
	for i := range 3 {
		c, err := m.Apply(sets(string(rune('a'+i)), ""))
		if err != nil {
			t.Fatal(err)
		}
		c.Then(func(error) { order = append(order, i) })
	}
	m.Barrier().Then(func(error) { order = append(order, 3) })
	if m.Pending() != 3 || len(order) != 0 || keysOf(t, m) != "abc" {
		t.Errorf("%d pending, %v decided, %q visible", m.Pending(), order, keysOf(t, m))
	}
	if err := m.Sync(); err != nil {
		t.Fatal(err)
	}
	if m.Pending() != 0 || fmt.Sprint(order) != "[0 1 2 3]" {
		t.Errorf("%d pending, decided %v", m.Pending(), order)
	}
}

func TestMemoryCrash(t *testing.T) {
	for keep, want := range []string{"ab", "abc", "abcd", "abcde", "abcde"} {
		m := NewMemory()
		m.Manual()
		var commits []*store.Commit
		for i := range 5 {
			c, err := m.Apply(sets(string(rune('a'+i)), ""))
			if err != nil {
				t.Fatal(err)
			}
			commits = append(commits, c, m.Barrier())
			if i == 1 {
				if err := m.Sync(); err != nil {
					t.Fatal(err)
				}
			}
		}
		left := m.Crash(keep)
		if got := keysOf(t, left); got != want {
			t.Errorf("keeping %d: %q, want %q", keep, got, want)
		}
		for i, c := range commits {
			if done, err := c.Resolved(); !done || errors.Is(err, store.ErrClosed) != (i >= 4) {
				t.Errorf("keeping %d: commit %d is decided: %t, %v", keep, i, done, err)
			}
		}
		if _, err := m.Get([]byte("a")); !errors.Is(err, store.ErrClosed) {
			t.Errorf("the crashed store answers: %v", err)
		}
		c, err := left.Apply(sets("z", ""))
		if err != nil || c.Revision != store.Revision(len(want)+1) {
			t.Errorf("the next batch: %v, %v", c, err)
		}
		if left.Pending() != 1 {
			t.Error("the store that is left forgot that commits are made by hand")
		}
	}
}

func TestMemoryFail(t *testing.T) {
	broken := errors.New("broken")
	only := func(want string) func(string) error {
		return func(call string) error {
			if call == want {
				return broken
			}
			return nil
		}
	}
	m := NewMemory()
	if _, err := m.Apply(sets("a", "", "b", "")); err != nil {
		t.Fatal(err)
	}
	check := func(call string, err error) {
		t.Helper()
		if !errors.Is(err, broken) || !coded(err) {
			t.Errorf("%s: %v", call, err)
		}
	}
	m.Fail(only("get"))
	_, err := m.Get([]byte("a"))
	check("get", err)
	m.Fail(only("snapshot"))
	_, err = m.Snapshot()
	check("snapshot", err)
	m.Fail(only("apply"))
	_, err = m.Apply(sets("c", ""))
	check("apply", err)
	if got := keysOf(t, m); got != "ab" {
		t.Errorf("a batch that failed left %q", got)
	}
	m.Fail(only("scan"))
	_, err = entries(m, store.Range{})
	check("scan", err)
	steps := 0
	m.Fail(func(call string) error {
		if steps++; steps == 3 {
			return broken
		}
		return nil
	})
	seen := 0
	for _, err = range m.Scan(store.Range{}) {
		if err == nil {
			seen++
		}
	}
	check("the second entry of a scan", err)
	if seen != 1 {
		t.Errorf("%d entries before the error", seen)
	}

	// A commit that fails leaves the batch visible; a later one makes both durable.
	m.Fail(only("commit"))
	c, err := m.Apply(sets("c", ""))
	if err != nil {
		t.Fatal(err)
	}
	check("commit", c.Wait(context.Background()))
	check("barrier", m.Barrier().Wait(context.Background()))
	if keysOf(t, m) != "abc" || m.Pending() != 1 {
		t.Errorf("%q visible, %d pending", keysOf(t, m), m.Pending())
	}
	m.Fail(nil)
	if c, err = m.Apply(sets("d", "")); err != nil {
		t.Fatal(err)
	}
	if err := c.Wait(context.Background()); err != nil || m.Pending() != 0 {
		t.Errorf("after healing: %v, %d pending", err, m.Pending())
	}
	if got := keysOf(t, m.Crash(0)); got != "abcd" {
		t.Errorf("after a crash: %q", got)
	}
	m = NewMemory()
	mine := store.Errorf(507, nil, "Full")
	m.Fail(func(string) error { return mine })
	if _, err := m.Get([]byte("a")); err != mine {
		t.Errorf("an error with a code was wrapped: %v", err)
	}
}

// Who keeps the slices of a scan finds out.
func TestMemoryOverwrites(t *testing.T) {
	m := NewMemory()
	if _, err := m.Apply(sets("a", "1", "b", "2")); err != nil {
		t.Fatal(err)
	}
	var kept [][]byte
	for e := range m.Scan(store.Range{}) {
		kept = append(kept, e.Key, e.Value)
	}
	for _, k := range kept {
		if !bytes.Equal(k, []byte{0xDB}) {
			t.Errorf("a slice of a scan is still %q when it is over", k)
		}
	}
}

// The model of all engines is itself compared with the plainest one: a map.
func FuzzMemory(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte("sa1sb2sc3dbrac"))
	f.Add([]byte("sa1sa2rabsa3raa"))
	f.Add([]byte("s\xff1s\xfe2r\xfe\xffs\x011d\x01"))
	f.Fuzz(func(t *testing.T, text []byte) {
		m := NewMemory()
		want := make(map[string]store.Entry)
		var b store.Batch
		for len(text) >= 3 {
			op, key, value := text[0], text[1:2], text[2:3]
			text = text[3:]
			b.Reset()
			switch op % 3 {
			case 0:
				b.Set(key, value)
			case 1:
				b.Delete(key)
			default:
				b.DeleteRange(key, value)
			}
			b.IfRevision(key, want[string(key)].Revision)
			c, err := m.Apply(&b)
			if bad := b.Check(); (bad != nil) != (err != nil) {
				t.Fatalf("%v: %v", b, err)
			}
			if err != nil {
				continue
			}
			switch b.Ops[0].Kind {
			case store.OpSet:
				want[string(key)] = store.Entry{Key: key, Value: value, Revision: c.Revision}
			case store.OpDelete:
				delete(want, string(key))
			default:
				maps.DeleteFunc(want, func(k string, _ store.Entry) bool { return k >= string(key) && k < string(value) })
			}
		}
		var sorted []store.Entry
		for _, key := range slices.Sorted(maps.Keys(want)) {
			sorted = append(sorted, want[key])
		}
		for _, reverse := range []bool{false, true} {
			got, err := entries(m, store.Range{Reverse: reverse})
			if err != nil || !equal(got, sorted) {
				t.Fatalf("reverse %t: %v%s\nwant%s", reverse, err, show(got), show(sorted))
			}
			slices.Reverse(sorted)
		}
	})
}
