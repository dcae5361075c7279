package replicated_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"kernos/store"
	"kernos/store/pebble"
	"kernos/store/replicated"
	"kernos/store/replicated/logtest"
)

// A log that has lost what a copy knows to be accepted stops the copy, which keeps everything.
func TestDiverged(t *testing.T) {
	for name, change := range map[string]func(t *testing.T, log *logtest.Log) *logtest.Log{
		"lost entries": func(t *testing.T, log *logtest.Log) *logtest.Log { log.Lose(2); return log },
		"an empty log": func(t *testing.T, log *logtest.Log) *logtest.Log { return logtest.New() },
		"another log": func(t *testing.T, log *logtest.Log) *logtest.Log {
			other := logtest.New()
			m := join(t, other)
			m.own(1)
			for i := range 20 {
				m.wait(m.set(fmt.Sprint("m/", i), "other"))
			}
			m.disown()
			return other
		},
		"lost entries, and others in their place": func(t *testing.T, log *logtest.Log) *logtest.Log {
			log.Lose(3)
			m := join(t, log)
			m.own(9)
			for i := range 20 {
				m.wait(m.set(fmt.Sprint("m/", i), "other"))
			}
			m.disown()
			return log
		},
	} {
		t.Run(name, func(t *testing.T) {
			log := logtest.New()
			a := join(t, log)
			a.own(1)
			for i := range 10 {
				a.wait(a.set(fmt.Sprint("m/", i), "value"))
			}
			before := contentOf(t, a.owner)
			a.disown()
			at := a.copy.Position()
			if err := a.copy.Close(); err != nil {
				t.Fatal(err)
			}
			a.link.Log = change(t, log)
			a.open()
			err := a.copy.Follow(t.Context())
			if !errors.Is(err, replicated.ErrDiverged) || !coded(err, 503, "10 accepted groups", "kernos cluster leave") {
				t.Errorf("Follow: %v", err)
			}
			if _, err := a.copy.Own(t.Context(), 99, a.lease); !errors.Is(err, replicated.ErrDiverged) {
				t.Errorf("Own: %v", err)
			}
			if now := a.copy.Position(); now != at {
				t.Errorf("the position was %+v, and is %+v", at, now)
			}
			if d := differ(a.content(), before); d != "" {
				t.Errorf("the copy was changed: %s", d)
			}
			if err := a.copy.Close(); err != nil {
				t.Fatal(err)
			}
			a.copy = nil
			if err := replicated.Leave("copy", a.options()); err != nil {
				t.Fatal(err)
			}
			e, err := pebble.Open("copy", &pebble.Options{FS: a.disk})
			if err != nil {
				t.Fatalf("after Leave: %v", err)
			}
			if d := differ(contentOf(t, e), before); d != "" {
				t.Errorf("after Leave: %s", d)
			}
			if err := e.Close(); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// A store that is not a copy yet begins a log with all that it has. An attempt that is interrupted is repeated.
func TestFounding(t *testing.T) {
	disk := vfs.NewCrashableMem()
	e, err := pebble.Open("copy", &pebble.Options{FS: disk})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 30 {
		c, err := e.Apply(sets(fmt.Sprintf("m/%02d", i), strings.Repeat("large", 20_000)))
		if err != nil {
			t.Fatal(err)
		}
		if err := wait(c); err != nil {
			t.Fatal(err)
		}
	}
	before := contentOf(t, e)
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}

	log := logtest.New()
	a, b := joinWith(t, log, disk), join(t, log)
	ctx, cancel := context.WithCancel(t.Context())
	a.link.HangAfter(1)
	go func() { // the attempt ends when it has appended something
		<-a.link.Hung()
		cancel()
	}()
	_, err = a.copy.Own(ctx, 1, a.lease)
	cancel()
	a.link.Resume()
	if err == nil {
		t.Fatal("the attempt was not interrupted")
	}
	if _, err := b.copy.Own(t.Context(), 2, b.lease); !coded(err, 503, "start that node again") {
		t.Errorf("another node owns half of a state: %v", err)
	}
	b.follow()
	a.own(3)
	if d := differ(contentOf(t, a.owner), before); d != "" {
		t.Errorf("the owner: %s", d)
	}
	a.wait(a.set("m/1", "one"))
	sequence, err := a.owner.Mark(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	one, err := a.copy.Checksum(t.Context(), sequence)
	if err != nil {
		t.Fatal(err)
	}
	if other, err := b.copy.Checksum(t.Context(), sequence); err != nil || one != other {
		t.Errorf("the copies have %s and %s, %v", one, other, err)
	}

	// A store with a state of its own can't join.
	c := vfs.NewCrashableMem()
	if e, err = pebble.Open("copy", &pebble.Options{FS: c}); err != nil {
		t.Fatal(err)
	}
	commit, err := e.Apply(sets("m/1", "mine"))
	if err == nil {
		err = wait(commit)
	}
	if err = errors.Join(err, e.Close()); err != nil {
		t.Fatal(err)
	}
	m := joinWith(t, log, c)
	if err := m.copy.Follow(t.Context()); !coded(err, 409, "state of its own") {
		t.Errorf("Follow: %v", err)
	}
	if _, err := m.copy.Own(t.Context(), 9, m.lease); !coded(err, 409, "state of its own") {
		t.Errorf("Own: %v", err)
	}
}

// A copy isn't opened as a store on its own, which would write what the log doesn't have.
func TestCopyIsNoStore(t *testing.T) {
	a := join(t, logtest.New())
	a.own(1)
	a.wait(a.set("m/1", "one"))
	a.disown()
	if err := a.copy.Close(); err != nil {
		t.Fatal(err)
	}
	a.copy = nil
	if _, err := pebble.Open("copy", &pebble.Options{FS: a.disk}); !coded(err, 503, "kernos cluster leave") {
		t.Errorf("Open: %v", err)
	}
}

// Follow ends with its context, or with the copy.
func TestFollowEnds(t *testing.T) {
	a := join(t, logtest.New())
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- a.copy.Follow(ctx) }()
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("Follow: %v", err)
	}
	go func() { ended <- a.copy.Follow(context.Background()) }()
	if err := a.copy.Close(); err != nil {
		t.Error(err)
	}
	if err := <-ended; !errors.Is(err, store.ErrClosed) {
		t.Errorf("Follow of a copy that was closed: %v", err)
	}
	if err := a.copy.Follow(t.Context()); !errors.Is(err, store.ErrClosed) {
		t.Errorf("Follow of a closed copy: %v", err)
	}
}
