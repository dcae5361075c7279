package memory

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"kernos/kernel"
	"kernos/kernel/kerneltest"
	"kernos/message"
	"kernos/store"
	"kernos/store/blobs"
	"kernos/store/cursor"
)

func TestRevisionsCountAndGoOnAfterADelete(t *testing.T) {
	w := newWorld(t, Options{})
	w.reply("Set", `{"key":"a","value":"one"}`, ok)
	w.clock.Add(10)
	w.reply("Set", `{"key":"/a","value":"two","ifRevision":1}`, `{"success":true,"revision":2}`)
	w.reply("Get", `{"key":"a","withRevision":true}`, `{"value":"two","revision":2,"updated":1700000000010}`)
	w.clock.Add(10)
	w.reply("Delete", `{"key":"a"}`, ok)
	w.refuse("Get", `{"key":"a"}`, 404, "Key not found: a")
	w.refuse("Delete", `{"key":"a"}`, 404, "Key not found: a")
	w.reply("Set", `{"key":"a","value":null,"ifRevision":0,"ttl":1e3}`, `{"success":true,"revision":4}`)
	w.reply("Get", `{"key":"a","withRevision":true}`, `{"value":null,"revision":4,"updated":1700000000020,"expires":1700000001020}`)
	w.reply("Get", `{"key":"a","revision":1}`, `"one"`)
	w.reply("Get", `{"key":"a","revision":2.0,"withRevision":true}`, `{"value":"two","revision":2,"updated":1700000000010}`)
	w.reply("Get", `{"key":"a","revision":4}`, `null`)
	w.refuse("Get", `{"key":"/a","revision":3}`, 404, "Key not found: /a at revision 3, which deleted it")
	w.refuse("Get", `{"key":"/a","revision":5}`, 404, "Key not found: /a at revision 5 (Memory.History lists")
	w.reply("History", `{"key":"a"}`, `{"versions":[`+
		`{"revision":4,"value":null,"updated":1700000000020,"message":"c7","expires":1700000001020},`+
		`{"revision":3,"deleted":true,"updated":1700000000020,"message":"c4"},`+
		`{"revision":2,"value":"two","updated":1700000000010,"message":"c2"},`+
		`{"revision":1,"value":"one","updated":1700000000000,"message":"c1"}]}`)
	want := []string{
		`Memory.Changed {"key":"a","revision":1}`,
		`Memory.Changed {"key":"a","revision":2}`,
		`Memory.Changed {"key":"a","revision":3,"deleted":true}`,
		`Memory.Changed {"key":"a","revision":4}`,
	}
	if !slices.Equal(w.events, want) {
		t.Errorf("published %q, want %q", w.events, want)
	}
}

func TestRestoreBringsAnEarlierValueBack(t *testing.T) {
	w := newWorld(t, Options{Versions: 5})
	large := `"` + strings.Repeat("x", maxInline) + `"`
	w.reply("Set", `{"key":"a","value":"one"}`, ok)
	w.reply("Set", fmt.Sprintf(`{"key":"a","valueRef":{"scheme":"file","path":%q}}`, w.file(large)), ok)
	w.reply("Delete", `{"key":"a"}`, ok)
	w.refuse("Restore", `{"key":"a","revision":3}`, 404, "a at revision 3, which deleted it")
	w.refuse("Restore", `{"key":"a","revision":9}`, 404, "a at revision 9 (it is at revision 3)")
	w.refuse("Restore", `{"key":"a","revision":1,"ifRevision":2}`, 409, "does not exist")
	w.reply("Restore", `{"key":"a","revision":1}`, `{"success":true,"revision":4}`)
	w.reply("Get", `{"key":"a"}`, `"one"`)
	w.reply("Restore", `{"key":"/a","revision":2,"ifRevision":4}`, `{"success":true,"revision":5}`)
	w.reply("Get", `{"key":"a"}`, large)
	w.reply("Set", `{"key":"a","value":6,"ttl":1}`, ok)
	w.refuse("Restore", `{"key":"a","revision":1}`, 404, "a at revision 1 (the value isn't kept: Memory.History lists the last 5 revisions")
	w.reply("Get", `{"key":"a","revision":5}`, large)
	w.refuse("Restore", `{"key":"b","revision":1}`, 404, "Key not found: b")
	w.refuse("Restore", `{"key":"proc/uptime","revision":1}`, 403, "read-only")
	// Each version needs the blob for itself.
	if n, err := referencesTo(w.store, blobs.Sum([]byte(large))); err != nil || n != 2 {
		t.Errorf("the blob has %d references, %v", n, err)
	}
}

func TestAMissingKeyNamesNearOnes(t *testing.T) {
	w := newWorld(t, Options{})
	for _, key := range []string{"notes/birthday", "notes/shopping", "trips/rome", "trips/oslo"} {
		w.reply("Set", fmt.Sprintf(`{"key":%q,"value":1}`, key), ok)
	}
	for _, action := range []string{"Get", "History", "Delete"} {
		w.refuse(action, `{"key":"notes/brithday"}`, 404, "Key not found: notes/brithday (did you mean notes/birthday?)")
		w.refuse(action, `{"key":"note/shoping"}`, 404, "Key not found: note/shoping (did you mean notes/shopping?)")
		e := w.ask(action, `{"key":"trips/paris"}`)
		if _, text := kerneltest.ReadError(t, e); text != "Key not found: trips/paris" {
			t.Errorf("%s: got %s", action, text)
		}
	}
}

func TestASetNamesItsRevision(t *testing.T) {
	w := newWorld(t, Options{})
	w.reply("Set", `{"key":"a","value":1,"withRevision":true}`, `{"success":true,"revision":1}`)
	w.reply("Set", `{"key":"a","value":2,"withRevision":true}`, `{"success":true,"revision":2}`)
	w.reply("Set", `{"key":"a","value":3,"withRevision":false}`, ok)
}

func TestMismatchSaysBothRevisions(t *testing.T) {
	w := newWorld(t, Options{})
	w.refuse("Set", `{"key":"/a","value":1,"ifRevision":3}`, 409, "/a was expected at revision 3 and does not exist (revision 0)")
	w.reply("Set", `{"key":"a","value":1,"ifRevision":0}`, `{"success":true,"revision":1}`)
	w.refuse("Set", `{"key":"a","value":2,"ifRevision":0}`, 409, "a was expected not to exist (revision 0) and is at revision 1")
	w.refuse("Set", `{"key":"a","value":2,"ifRevision":2}`, 409, "a was expected at revision 2 and is at revision 1")
	w.refuse("Delete", `{"key":"a","ifRevision":2}`, 409, "a was expected at revision 2 and is at revision 1")
	w.reply("Get", `{"key":"a"}`, `1`)
	w.reply("Delete", `{"key":"a","ifRevision":1}`, ok)
	w.refuse("Delete", `{"key":"a","ifRevision":2}`, 404, "Key not found: a")
}

func TestLastVersionsAreKept(t *testing.T) {
	w := newWorld(t, Options{Versions: 3})
	large := `"` + strings.Repeat("x", maxInline) + `%d"`
	for i := range 10 {
		w.reply("Set", fmt.Sprintf(`{"key":"a","valueRef":{"scheme":"file","path":%q}}`, w.file(fmt.Sprintf(large, i+1))), ok)
	}
	if got := w.revisions("a", ""); !slices.Equal(got, []uint64{10, 9, 8}) {
		t.Errorf("kept: %v", got)
	}
	w.refuse("Get", `{"key":"a","revision":7}`, 404, "at revision 7")
	// The blobs of those that went belong to no value.
	for i := range 10 {
		n, err := referencesTo(w.store, blobs.Sum(fmt.Appendf(nil, large, i+1)))
		if want := 0; err != nil || i >= 7 && n != 1 || i < 7 && n != want {
			t.Errorf("version %d has %d references, %v", i+1, n, err)
		}
	}
	w.reply("Delete", `{"key":"a"}`, ok)
	if got := w.revisions("a", ""); !slices.Equal(got, []uint64{11, 10, 9}) {
		t.Errorf("kept: %v", got)
	}
	// Fewer are kept from now on.
	w.memory.opts.Versions = 1
	w.reply("Set", `{"key":"a","value":1}`, ok)
	if got := w.revisions("a", ""); !slices.Equal(got, []uint64{12}) {
		t.Errorf("kept: %v", got)
	}
	w.reply("Set", `{"key":"a","value":2}`, ok)
	if got := w.revisions("a", ""); !slices.Equal(got, []uint64{13}) {
		t.Errorf("kept: %v", got)
	}
	if n := w.count([]byte{store.SpaceBlobs}); n != 0 {
		t.Errorf("%d references are left", n)
	}
}

// Versions go unseen. None that is too many may stay, and no reference to a blob that is not
// that of a version which is kept.
func TestVersionsGoWithTheirBlobs(t *testing.T) {
	w := newWorld(t, Options{})
	random := rand.New(rand.NewPCG(1, 2))
	large := make(map[uint64]bool) // of all versions
	revision, oldest, there := uint64(0), uint64(1), false
	for range 400 {
		if random.IntN(20) == 0 {
			w.memory.opts.Versions = 1 + random.IntN(30)
		}
		revision++
		switch random.IntN(8) {
		case 0:
			if !there {
				revision--
				continue
			}
			w.reply("Delete", `{"key":"a"}`, ok)
			there = false
		case 1:
			large[revision] = true
			w.reply("Set", fmt.Sprintf(`{"key":"a","valueRef":{"scheme":"file","path":%q}}`, w.file(fmt.Sprintf(`"%d%s"`, revision, strings.Repeat("x", maxInline)))), ok)
			there = true
		case 2: // it expires
			w.reply("Set", `{"key":"a","value":1,"ttl":1}`, ok)
			w.clock.Add(1)
			w.sweep(1)
			there = false
		default:
			w.reply("Set", `{"key":"a","value":1}`, ok)
			there = true
		}
		if revision >= oldest+uint64(w.memory.opts.Versions) {
			oldest = revision - uint64(w.memory.opts.Versions) + 1
		}
		want, blobbed := []uint64{}, 0
		for r := revision; r >= oldest; r-- {
			want = append(want, r)
			if large[r] {
				blobbed++
			}
		}
		if got := w.revisions("a", ""); !slices.Equal(got, want) {
			t.Fatalf("kept: %v, want %v", got, want)
		}
		if n := w.count([]byte{store.SpaceBlobs}); n != blobbed {
			t.Fatalf("%d references, want %d", n, blobbed)
		}
	}
}

func TestHistoryPagesWhateverHappensMeanwhile(t *testing.T) {
	w := newWorld(t, Options{})
	for i := range 7 {
		w.reply("Set", fmt.Sprintf(`{"key":"a","value":%d}`, i), ok)
	}
	w.reply("Set", `{"key":"a/b","value":1}`, ok) // a neighbour
	want := []uint64{7, 6, 5, 4, 3, 2, 1}
	for _, limit := range []string{"", `,"limit":1`, `,"limit":3`, `,"limit":7`, `,"limit":100`} {
		if got := w.revisions("/a", limit); !slices.Equal(got, want) {
			t.Errorf("limit %q: %v", limit, got)
		}
	}
	var first struct{ Cursor string }
	if err := json.Unmarshal(w.ask("History", `{"key":"a","limit":3}`).Data, &first); err != nil {
		t.Fatal(err)
	}
	w.reply("Set", `{"key":"a","value":"new"}`, ok)
	w.reply("Delete", `{"key":"a"}`, ok)
	var second struct {
		Versions []struct{ Revision uint64 }
		Cursor   string
	}
	if err := json.Unmarshal(w.ask("History", `{"key":"a","limit":2,"cursor":"`+first.Cursor+`"}`).Data, &second); err != nil {
		t.Fatal(err)
	}
	if len(second.Versions) != 2 || second.Versions[0].Revision != 4 || second.Versions[1].Revision != 3 || second.Cursor == "" {
		t.Errorf("went on with %+v", second)
	}
	w.reply("History", `{"key":"a","cursor":"`+cursor.New(cursorHistory, "1")+`"}`, `{"versions":[]}`)
}

// Every caller adds one, and none is lost.
func TestCompareAndSetUnderContention(t *testing.T) {
	w := newWorld(t, Options{})
	w.reply("Set", `{"key":"counter","value":0}`, ok)
	const goroutines, each = 64, 5
	var wg sync.WaitGroup
	for range goroutines {
		wg.Go(func() {
			for done := 0; done < each; {
				var now struct{ Value, Revision int }
				if err := json.Unmarshal(w.ask("Get", `{"key":"counter","withRevision":true}`).Data, &now); err != nil {
					t.Error(err)
					return
				}
				answer := w.ask("Set", fmt.Sprintf(`{"key":"counter","value":%d,"ifRevision":%d}`, now.Value+1, now.Revision))
				if answer.Kind == message.KindReply {
					done++
				} else if e, err := message.ParseError(answer.Data); err != nil || e.Code != 409 {
					t.Errorf("got %s", answer.Data)
					return
				}
			}
		})
	}
	wg.Wait()
	w.reply("Get", `{"key":"counter","withRevision":true}`, fmt.Sprintf(`{"value":%d,"revision":%d,"updated":%d}`, goroutines*each, goroutines*each+1, start))
}

// Of those who find no key, one makes it, whatever came before.
func TestOneOfManyCreates(t *testing.T) {
	w := newWorld(t, Options{})
	for round := range 5 {
		var made atomic.Int64
		var wg sync.WaitGroup
		for range 32 {
			wg.Go(func() {
				if w.ask("Set", `{"key":"lock","value":1,"ifRevision":0}`).Kind == message.KindReply {
					made.Add(1)
				}
			})
		}
		wg.Wait()
		if made.Load() != 1 {
			t.Errorf("%d have made it", made.Load())
		}
		w.reply("Delete", fmt.Sprintf(`{"key":"lock","ifRevision":%d}`, 2*round+1), ok)
	}
}

// Sets without a condition and deletes fall over each other, and the history has them
// all in order.
func TestHistoryHasNoGapsUnderContention(t *testing.T) {
	w := newWorld(t, Options{Versions: 10_000})
	var changes atomic.Int64
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			for range 20 {
				action, data := "Set", `{"key":"a","value":1}`
				if i%4 == 0 {
					action, data = "Delete", `{"key":"a"}`
				}
				if w.ask(action, data).Kind == message.KindReply {
					changes.Add(1)
				}
			}
		})
	}
	wg.Wait()
	w.reply("Set", `{"key":"a","value":1}`, ok)
	got := w.revisions("a", "")
	if len(got) != int(changes.Load())+1 {
		t.Errorf("%d changes have made %d versions", changes.Load()+1, len(got))
	}
	for i, revision := range got {
		if revision != uint64(len(got)-i) {
			t.Fatalf("the history has %v", got)
		}
	}
}

// meddled is a store in which something happens after a key that is gone is looked at.
type meddled struct {
	store.Store
	meddle func()
}

func (m *meddled) Get(key []byte) (store.Entry, error) {
	e, err := m.Store.Get(key)
	if meddle := m.meddle; meddle != nil && key[1] == left {
		m.meddle = nil
		meddle()
	}
	return e, err
}

// A key that is absent when it is looked at and absent when it is set may have been there
// between: its revisions go on from there.
func TestKeyMayComeAndGoUnnoticed(t *testing.T) {
	w := newWorld(t, Options{})
	other := &meddled{Store: w.store}
	w.reply("Set", `{"key":"a","value":1}`, ok)
	w.reply("Delete", `{"key":"a"}`, ok)
	other.meddle = func() {
		w.reply("Set", `{"key":"a","value":3}`, ok)
		w.reply("Delete", `{"key":"a"}`, ok)
	}
	slow := &world{t: t, kernel: kerneltest.Of(t, &kernel.Options{Store: w.store}, New(other, w.blobs, nil).Module())}
	slow.reply("Set", `{"key":"a","value":5,"ifRevision":0}`, `{"success":true,"revision":5}`)
	if got := w.revisions("a", ""); other.meddle != nil || !slices.Equal(got, []uint64{5, 4, 3, 2, 1}) {
		t.Errorf("the history has %v", got)
	}
}
