package daemon

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"kernos/message"
	"kernos/store"
	"kernos/store/storetest"
)

// kept is a daemon over a store in memory, without servers.
type kept struct {
	*Daemon
	stop func() // ends Serve and waits for it
}

func keepIn(t *testing.T, dir string, m *storetest.Memory, o Options) *kept {
	t.Helper()
	o.Home, o.Files.Directory = dir, dir
	o.OpenStore = func(string) (store.Store, error) { return m, nil }
	d, err := Open(&o)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(d.home.State(), 0o700); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		if err := d.Serve(ctx); err != nil {
			t.Error(err)
		}
		close(ended)
	}()
	return &kept{Daemon: d, stop: func() { cancel(); <-ended }}
}

// end ends Serve and closes the daemon.
func (k *kept) end(t *testing.T) {
	t.Helper()
	k.stop()
	if err := k.Close(); err != nil {
		t.Error(err)
	}
}

// ping asks n times.
func (k *kept) ping(n int) {
	for range n {
		m := message.Message{Kind: message.KindQuery, Type: "Ping", Data: json.RawMessage(`{"payload":1}`)}
		k.kernel.Stamp(&m)
		k.kernel.Handle(context.Background(), m, func(message.Message) {})
	}
}

// stats says how many messages the journal has, and how many it has dropped and why.
func (k *kept) stats(t *testing.T) string {
	t.Helper()
	s, err := k.Journal().Stats()
	if err != nil {
		t.Fatal(err)
	}
	d, err := k.Journal().Dropped()
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%d kept, %d dropped %s", s.Messages, d.Messages, d.Why)
}

func (k *kept) wants(t *testing.T, when, want string) {
	t.Helper()
	synctest.Wait()
	if got := k.stats(t); got != want {
		t.Errorf("%s: %s; want %s", when, got, want)
	}
}

func TestTheJournalIsTrimmed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := keepIn(t, t.TempDir(), storetest.NewMemory(), Options{Retention: Retention{MaxAge: time.Hour}})
		k.ping(2)
		k.wants(t, "at once", "4 kept, 0 dropped ")
		time.Sleep(time.Hour - time.Second)
		k.wants(t, "before an hour", "4 kept, 0 dropped ")
		time.Sleep(time.Second + sweepEvery)
		k.wants(t, "after an hour", "0 kept, 4 dropped age")
		k.end(t)
	})
	synctest.Test(t, func(t *testing.T) {
		m := storetest.NewMemory()
		dir := t.TempDir()
		k := keepIn(t, dir, m, Options{})
		k.ping(5000)
		time.Sleep(2 * sweepEvery)
		k.wants(t, "without limits", "10000 kept, 0 dropped ")
		k.stop()
		if err := k.Journal().Close(); err != nil {
			t.Error(err)
		}

		// Another process sees to it soon.
		k = keepIn(t, dir, m, Options{Retention: Retention{MaxBytes: 1}})
		k.ping(1)
		k.wants(t, "at once", "10002 kept, 0 dropped ")
		time.Sleep(firstSweep - time.Second)
		k.wants(t, "before the first sweep", "10002 kept, 0 dropped ")
		time.Sleep(time.Second)
		synctest.Wait()
		// Nothing fits into a byte.
		if d, err := k.Journal().Dropped(); err != nil || d.Messages != 10002 || d.Why != "bytes" {
			t.Errorf("after the first sweep: %+v, %v", d, err)
		}
		k.end(t)
	})
}

// Processes that end before the first sweep leave it to the one that finds it due.
func TestWhatIsDueIsDoneBeforeTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := storetest.NewMemory()
		dir, state := t.TempDir(), ""
		short := func(pings int, want string) {
			t.Helper()
			k := keepIn(t, dir, m, Options{Retention: Retention{MaxAge: time.Hour}})
			k.ping(pings)
			state = k.home.State()
			k.stop()
			k.wants(t, "a short process", want)
			if err := k.Journal().Close(); err != nil {
				t.Error(err)
			}
		}
		// The time of a file is not of this bubble.
		last := func(age time.Duration) {
			t.Helper()
			at := time.Now().Add(-age)
			if err := os.Chtimes(filepath.Join(state, "swept"), at, at); err != nil {
				t.Fatal(err)
			}
		}
		short(1, "2 kept, 0 dropped ")
		time.Sleep(2 * time.Hour)
		last(sweepDue - time.Second)
		short(0, "2 kept, 0 dropped ")
		last(sweepDue)
		short(0, "0 kept, 2 dropped age")
	})
}

// A process that never needed the store does not open it to tidy up.
func TestNothingIsSweptWhereNothingIsOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := keepIn(t, t.TempDir(), storetest.NewMemory(), Options{Retention: Retention{MaxBytes: 1}, Unrecorded: true})
		time.Sleep(2 * sweepEvery)
		k.stop()
		names, err := os.ReadDir(k.home.State())
		if err != nil || len(names) > 0 {
			t.Errorf("there is %v, %v", names, err)
		}
	})
}

func TestBlobsStayWhileABackupIsMade(t *testing.T) {
	k := keepIn(t, t.TempDir(), storetest.NewMemory(), Options{})
	defer k.stop()
	blob, err := k.state.blobs.Put([]byte("nothing refers to it"))
	if err != nil {
		t.Fatal(err)
	}
	later := time.Now().Add(2 * k.state.unused())
	collect := func(there bool) {
		t.Helper()
		if err := k.state.collectBlobs(t.Context(), later); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(blob.Path); (err == nil) != there {
			t.Errorf("after a collection: %v; want it there: %t", err, there)
		}
	}
	release, err := k.home.keepBlobs()
	if err != nil {
		t.Fatal(err)
	}
	again, err := k.home.keepBlobs() // two backups
	if err != nil {
		t.Fatal(err)
	}
	collect(true)
	release()
	collect(true)
	again()
	collect(false)
}

// How long outcomes are remembered can be set; blobs that they point to stay as long.
func TestOutcomesAreForgottenWhenTheyAreSaidToBe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := keepIn(t, t.TempDir(), storetest.NewMemory(), Options{Retention: Retention{Outcomes: 2 * time.Hour}})
		set := func(want string) {
			t.Helper()
			m := message.Message{Kind: message.KindCommand, Type: "Memory.Set", Data: json.RawMessage(`{"key":"k","value":1,"ifRevision":0}`)}
			k.kernel.Stamp(&m)
			m.Metadata.IdempotencyKey = "once"
			k.kernel.Handle(context.Background(), m, func(m message.Message) {
				if string(m.Kind) != want {
					t.Errorf("got %s %s, want a %s", m.Kind, m.Data, want)
				}
			})
		}
		set("reply")
		time.Sleep(time.Hour)
		set("reply") // the first one's
		time.Sleep(2 * time.Hour)
		set("error") // the key is there already
		if k.state.unused() != 3*time.Hour {
			t.Errorf("blobs are kept for %v", k.state.unused())
		}
		k.end(t)
	})
}

// What comes between two sweeps has a bound too.
func TestAJournalThatIsTooLargeIsTrimmedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const most, excess = 200 << 10, 300 << 10
		var log bytes.Buffer
		k := keepIn(t, t.TempDir(), storetest.NewMemory(), Options{Retention: Retention{MaxBytes: most}, Log: slog.New(slog.NewTextHandler(&log, nil))})
		before := time.Now()
		for range 20 {
			for range 100 {
				text := make([]byte, 600)
				_, _ = rand.Read(text) // nothing that could be packed
				m := message.Message{Kind: message.KindCommand, Type: "Echo", Data: fmt.Appendf(nil, `{"message":"%x"}`, text)}
				k.kernel.Stamp(&m)
				k.kernel.Handle(context.Background(), m, func(message.Message) {})
			}
			time.Sleep(100 * time.Millisecond)
			synctest.Wait()
			if s, err := k.Journal().Stats(); err != nil || s.Bytes > most+excess {
				t.Errorf("%v after the start it has %d bytes, %v", time.Since(before), s.Bytes, err)
			}
		}
		if since := time.Since(before); since >= firstSweep {
			t.Errorf("a sweep may have done it: it is %v", since)
		}
		if d, err := k.Journal().Dropped(); err != nil || d.Messages == 0 || d.Why != "bytes" {
			t.Errorf("dropped %+v, %v", d, err)
		}
		k.stop()
		if !strings.Contains(log.String(), "the journal has dropped its oldest messages") || !strings.Contains(log.String(), "why=bytes") {
			t.Errorf("the operator is not told: %s", log.String())
		}
		if err := k.Close(); err != nil {
			t.Error(err)
		}
	})
}
