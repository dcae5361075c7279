package memory

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"kernos/kernel"
	"kernos/message"
	"kernos/store"
	"kernos/store/blobs"
)

func TestExpiredIsAbsentAtOnce(t *testing.T) {
	w := newWorld(t, Options{})
	w.reply("Set", `{"key":"f/a","value":"one","ttl":1000}`, ok)
	w.reply("Set", `{"key":"f/b","value":"two"}`, ok)
	w.clock.Add(999)
	w.reply("Get", `{"key":"f/a"}`, `"one"`)
	w.reply("List", `{"prefix":"f"}`, `{"keys":["f/a","f/b"]}`)
	w.clock.Add(1)
	w.refuse("Get", `{"key":"f/a"}`, 404, "Key not found: f/a")
	w.refuse("Get", `{"key":"f/a","revision":1}`, 404, "Key not found: f/a")
	w.refuse("Delete", `{"key":"f/a"}`, 404, "Key not found: f/a")
	w.reply("List", `{"prefix":"f"}`, `{"keys":["f/b"]}`)
	w.reply("History", `{"key":"f/a"}`, `{"versions":[{"revision":1,"updated":1700000000000,"message":"c1","expires":1700000001000}]}`)
	w.refuse("Set", `{"key":"f/a","value":2,"ifRevision":1}`, 409, "expected at revision 1 and does not exist")
	w.reply("Set", `{"key":"f/a","value":"again","ifRevision":0}`, `{"success":true,"revision":2}`)
	w.clock.Add(1_000_000)
	w.reply("Get", `{"key":"f/a"}`, `"again"`) // a Set without ttl stays
	w.refuse("Get", `{"key":"f/a","revision":1}`, 404, "Key not found: f/a")
	if n := w.count([]byte{store.SpaceMemory, expires}); n != 0 {
		t.Errorf("%d entries are left in the index", n)
	}
	// A folder of nothing but expired keys doesn't exist.
	w.reply("Set", `{"key":"g/h/i","value":1,"ttl":"1"}`, ok) // as a shell writes it
	w.clock.Add(1)
	w.reply("List", `{}`, `{"keys":["f/"]}`)
}

func TestSweepRemovesWhatHasExpiredAndOldHistory(t *testing.T) {
	w := newWorld(t, Options{})
	big := w.file(`"` + strings.Repeat("x", maxInline) + `"`)
	for i := range 600 { // more than a chunk
		w.reply("Set", fmt.Sprintf(`{"key":"short/%d","value":1,"ttl":%d}`, i, 1+i%3), ok)
	}
	w.reply("Set", `{"key":"big","valueRef":{"scheme":"file","path":"`+big+`"},"ttl":3}`, ok)
	w.reply("Set", `{"key":"stays","value":1}`, ok)
	w.reply("Set", `{"key":"renewed","value":1,"ttl":2}`, ok)
	w.reply("Set", `{"key":"renewed","value":2,"ttl":2000}`, ok)
	w.reply("Set", `{"key":"same","value":1,"ttl":3}`, ok)
	w.reply("Set", `{"key":"same","value":2,"ttl":3}`, ok)
	w.reply("Set", `{"key":"deleted","value":1}`, ok)
	w.reply("Delete", `{"key":"deleted"}`, ok)
	w.reply("Set", `{"key":"back","value":1}`, ok)
	w.reply("Delete", `{"key":"back"}`, ok)
	w.reply("Set", `{"key":"back","value":2}`, ok)
	published := len(w.events)
	w.sweep(0)
	w.clock.Add(2)
	w.sweep(400)
	w.sweep(0)
	w.clock.Add(1)
	w.sweep(200 + 2)
	w.sweep(0)
	w.reply("List", `{}`, `{"keys":["back","renewed","stays"]}`)
	if len(w.events) != published {
		t.Errorf("it wasn't asked for, and a sweep published %q", w.events[published:])
	}
	// Who has gone is remembered for a while: revisions go on.
	w.reply("Set", `{"key":"short/0","value":1,"ifRevision":0,"ttl":5}`, `{"success":true,"revision":2}`)
	w.clock.Add(defaultRemember.Milliseconds())
	w.reply("Set", `{"key":"deleted","value":1,"ifRevision":0}`, `{"success":true,"revision":3}`)
	w.reply("Delete", `{"key":"deleted"}`, ok)
	w.sweep(1 + 1 + 599 + 2) // renewed and short/0 expire; short/*, big and same are forgotten; deleted and short/0 have come back
	if n, err := referencesTo(w.store, blobs.Sum([]byte(`"`+strings.Repeat("x", maxInline)+`"`))); err != nil || n != 0 {
		t.Errorf("the blob has %d references, %v", n, err)
	}
	if got := w.revisions("deleted", ""); !slices.Equal(got, []uint64{4, 3, 2, 1}) {
		t.Errorf("kept: %v", got)
	}
	if got := w.revisions("back", ""); !slices.Equal(got, []uint64{3, 2, 1}) {
		t.Errorf("kept: %v", got)
	}
	w.clock.Add(defaultRemember.Milliseconds() + 3000)
	w.sweep(3) // renewed, short/0, deleted
	for _, index := range []byte{expires, gone} {
		if n := w.count([]byte{store.SpaceMemory, index}); n != 0 {
			t.Errorf("%d entries are left in index %c", n, index)
		}
	}
	if n := w.count([]byte{store.SpaceMemory, former}); n != 2 { // of back
		t.Errorf("%d versions are left in the history", n)
	}
	w.reply("Set", `{"key":"deleted","value":1,"ifRevision":0}`, `{"success":true,"revision":1}`)
}

// A caller changes a key after the sweep has looked at it.
func TestSweepLosesAgainstASet(t *testing.T) {
	w := newWorld(t, Options{})
	w.reply("Set", `{"key":"a","value":1,"ttl":1}`, ok)
	w.clock.Add(1)
	raced := false
	w.store.Fail(func(call string) error {
		if call == "apply" && !raced {
			raced = true
			return store.ErrConflict
		}
		return nil
	})
	// The store reports the conflict that a Set in between would cause.
	if n, err := w.memory.Sweep(t.Context(), time.UnixMilli(w.clock.Load())); n != 0 || err != nil || !raced {
		t.Errorf("swept %d, %v", n, err)
	}
	w.store.Fail(nil)
	w.sweep(1)
}

func TestSweepRacesWithSets(t *testing.T) {
	w := newWorld(t, Options{})
	done := make(chan struct{})
	var sweeper, setters sync.WaitGroup
	sweeper.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
			}
			w.clock.Add(1)
			if _, err := w.memory.Sweep(context.Background(), time.UnixMilli(w.clock.Load())); err != nil {
				t.Error(err)
				return
			}
		}
	})
	var sets atomic.Int64
	for range 4 {
		setters.Go(func() {
			for range 100 {
				w.reply("Set", `{"key":"a","value":1,"ttl":1}`, ok)
				sets.Add(1)
			}
		})
	}
	setters.Wait()
	close(done)
	sweeper.Wait()
	w.reply("Set", `{"key":"a","value":"last"}`, ok)
	// None was lost and none counted twice, by both ways to move them.
	w.reply("Get", `{"key":"a","withRevision":true}`, fmt.Sprintf(`{"value":"last","revision":%d,"updated":%d}`, sets.Load()+1, w.clock.Load()))
	got := w.revisions("a", "")
	for i, revision := range got {
		if revision != uint64(sets.Load()+1)-uint64(i) {
			t.Fatalf("the history has %v", got)
		}
	}
	if len(got) != defaultVersions {
		t.Errorf("%d versions are kept", len(got))
	}
}

func TestWhoWatchesLearnsThatAKeyHasExpired(t *testing.T) {
	w := newWorld(t, Options{})
	var records []kernel.Record
	w.memory.SetRecorder(recorderFunc(func(rs []kernel.Record, apply func() error) error {
		if err := apply(); err != nil {
			return err
		}
		records = append(records, rs...)
		return nil
	}))
	w.reply("Set", `{"key":"a","value":1}`, ok)
	w.reply("Set", `{"key":"a","value":2,"ttl":10}`, ok)
	w.reply("Set", `{"key":"b","value":1,"ttl":10}`, ok)
	w.reply("Set", `{"key":"b","value":2,"ttl":20}`, ok)
	w.clock.Add(10)
	w.store.Fail(func(call string) error { // another writer was faster
		if call == "apply" {
			return store.ErrConflict
		}
		return nil
	})
	w.sweep(0)
	w.store.Fail(nil)
	w.sweep(1)
	w.sweep(0)
	if len(records) != 2 || records[0].Message != nil || records[1].Way != kernel.Within {
		t.Fatalf("recorded %v", records)
	}
	m := *records[1].Message
	if m.Metadata.ID == "" || m.Metadata.Timestamp != w.clock.Load() || m.Metadata.Causation != "c2" ||
		m.Kind != message.KindEvent || m.Type != changedType || string(m.Data) != `{"key":"a","revision":2,"expired":true}` {
		t.Errorf("recorded %s", message.Append(nil, &m))
	}
}

// recorderFunc is a recorder of what happens without a call.
type recorderFunc func(rs []kernel.Record, apply func() error) error

func (f recorderFunc) Record(kernel.Record) {}
func (f recorderFunc) RecordWith(_ *store.Batch, rs []kernel.Record, apply func() error) error {
	return f(rs, apply)
}

func TestExpireSweepsWhenAKeyIsDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Options{})
		w.memory.opts.Now = time.Now
		var log bytes.Buffer
		w.memory.opts.Log = slog.New(slog.NewTextHandler(&log, nil))
		began := time.Now()
		var expired []string
		w.memory.SetRecorder(recorderFunc(func(rs []kernel.Record, apply func() error) error {
			if err := apply(); err != nil {
				return err
			}
			expired = append(expired, fmt.Sprint(string(rs[1].Message.Data), " ", time.Since(began).Round(expirePause)))
			return nil
		}))
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { w.memory.Expire(ctx) })
		set := func(key string, ttl time.Duration) {
			w.reply("Set", fmt.Sprintf(`{"key":%q,"value":1,"ttl":%d}`, key, ttl.Milliseconds()), ok)
		}
		set("late", time.Hour)
		set("soon", 5*time.Second)
		time.Sleep(time.Second)
		set("sooner", 2*time.Second)
		set("never", 1<<62)
		time.Sleep(10 * time.Second)
		want := []string{`{"key":"sooner","revision":1,"expired":true} 3s`, `{"key":"soon","revision":1,"expired":true} 5s`}
		if synctest.Wait(); !slices.Equal(expired, want) {
			t.Errorf("got %q, want %q", expired, want)
		}
		// A store that takes nothing is asked now and then, and the log says so once.
		w.store.Fail(func(call string) error {
			if call == "apply" {
				return errors.New("no room")
			}
			return nil
		})
		time.Sleep(2 * time.Hour)
		w.store.Fail(nil)
		time.Sleep(expireEvery)
		synctest.Wait()
		if len(expired) != 3 || !strings.Contains(expired[2], `"late"`) || strings.Count(log.String(), "level=WARN") != 1 {
			t.Errorf("got %q; the log says %s", expired, log.String())
		}
		cancel()
		running.Wait()
		running.Go(func() { w.memory.Expire(context.Background()) })
		if err := w.store.Close(); err != nil {
			t.Fatal(err)
		}
		running.Wait() // it ends with the store
	})
}
