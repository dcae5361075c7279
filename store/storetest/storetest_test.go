package storetest

import (
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"kernos/store"
)

// Memory is an engine too: its directory is a name.
func TestMemory(t *testing.T) {
	for _, mode := range []string{"AtOnce", "InTheBackground"} {
		t.Run(mode, func(t *testing.T) {
			var mu sync.Mutex
			left := make(map[string]*Memory)
			const nothing = "nothing of it is on disk"
			Run(t, Engine{NoFS: nothing, NoKill: nothing, Open: func(dir string) (store.Store, error) {
				mu.Lock()
				defer mu.Unlock()
				m := NewMemory()
				if old := left[dir]; old != nil {
					m = old.Crash(0)
				}
				left[dir] = m
				if mode == "AtOnce" {
					return m, nil
				}
				return inBackground(m), nil
			}})
		})
	}
}

// background is a Memory whose commits are decided by a goroutine.
type background struct {
	*Memory
	wake chan struct{}
	stop chan struct{}
	once sync.Once
	done sync.WaitGroup
}

func inBackground(m *Memory) *background {
	m.Manual()
	b := &background{Memory: m, wake: make(chan struct{}, 1), stop: make(chan struct{})}
	b.done.Go(func() {
		for {
			select {
			case <-b.wake:
				_ = m.Sync() // the commits say it
			case <-b.stop:
				return
			}
		}
	})
	return b
}

func (b *background) nudge() {
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

func (b *background) Apply(batch *store.Batch) (*store.Commit, error) {
	c, err := b.Memory.Apply(batch)
	b.nudge()
	return c, err
}

func (b *background) Barrier() *store.Commit {
	c := b.Memory.Barrier()
	b.nudge()
	return c
}

func (b *background) Close() error {
	b.once.Do(func() { close(b.stop) })
	b.done.Wait()
	return b.Memory.Close()
}

func TestLog(t *testing.T) {
	e := logEngine(virtuous, vfs.NewMem())
	e.NoKill = "its disk is in memory; TestLogKilled has one that stays"
	Run(t, e)
}

func TestLogKilled(t *testing.T) { runKill(t, logEngine(virtuous, vfs.Default)) }

// What an engine can't be put through it has to say.
func TestNoProofIsLeftOutInSilence(t *testing.T) {
	open := logEngine(virtuous, nil).OpenFS
	for _, c := range []struct {
		engine Engine
		reason string
		fails  bool
	}{
		{Engine{OpenFS: open}, "", false},
		{Engine{NoFS: "it has no files"}, "it has no files", false},
		{Engine{}, "", true},
		{Engine{OpenFS: open, NoFS: "it has no files"}, "", true},
	} {
		if reason, err := unlessFS(c.engine); reason != c.reason || (err != nil) != c.fails {
			t.Errorf("%+v: %q, %v", c.engine, reason, err)
		}
	}
}

// What the suite is there to find, it finds.
func TestPowerCutFinds(t *testing.T) {
	for _, c := range []struct {
		vice  vice
		every int
		want  string
	}{
		{syncsNothing, 1000, "what is found is the state of revision"},
		{syncsNoFolder, 1000, "what is found is the state of revision"},
		{syncsNothing, 1, "a second cut lost the batch"},
		{writesHalves, 1000, "a state that never was"},
		{losesRevision, 1, "is given again"},
	} {
		w := workload{rounds: 1, writers: 2, batches: 8, every: c.every, large: 6}
		_, err := powerCut(logEngine(c.vice, nil), w, rand.New(rand.NewPCG(1, 2)))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("vice %d: %v; want %q", c.vice, err, c.want)
		}
	}
}

func TestFaultsFind(t *testing.T) {
	calls, err := fault{}.run(logEngine(virtuous, nil))
	if err != nil {
		t.Fatal(err)
	}
	for v, want := range map[vice]string{
		seesTooEarly:    "Apply failed, and it is there",
		staysBroken:     "does not write",
		overlooksErrors: "lost",
		tellsNoCode:     "without a code",
		hangsOnErrors:   errHanging.Error(),
	} {
		found := errors.New("nothing")
		for at := 1; at <= calls && !strings.Contains(found.Error(), want); at++ {
			if _, err := (fault{at: at, lasting: v == overlooksErrors, code: syscall.EIO, patience: 50 * time.Millisecond}).run(logEngine(v, nil)); err != nil {
				found = err
			}
		}
		if !strings.Contains(found.Error(), want) {
			t.Errorf("vice %d: found %v; want %q", v, found, want)
		}
	}
}

func TestKillFinds(t *testing.T) {
	m := NewMemory()
	ended := errors.New("enough")
	steps := 0
	m.Fail(func(call string) error {
		if call == "apply" {
			if steps++; steps > 3*killKept+5 {
				return ended
			}
		}
		return nil
	})
	if err := killWriter(m, 3, func(string) {}); !errors.Is(err, ended) {
		t.Fatal(err)
	}
	all, err := entries(m, store.Range{})
	if err != nil {
		t.Fatal(err)
	}
	last, err := killState(all)
	if err != nil || last[3] != 3*killKept+5 {
		t.Fatalf("a state that is whole: step %d, %v", last[3], err)
	}
	change := func(name string, f func([]store.Entry) []store.Entry) {
		t.Helper()
		if _, err := killState(f(slices.Clone(all))); err == nil {
			t.Errorf("%s is not found", name)
		}
	}
	for i, e := range all {
		change("a missing "+string(e.Key), func(all []store.Entry) []store.Entry { return slices.Delete(all, i, i+1) })
		change("another revision of "+string(e.Key), func(all []store.Entry) []store.Entry {
			all[i].Revision += 1000
			return all
		})
		if len(e.Value) > 0 {
			change("another value of "+string(e.Key), func(all []store.Entry) []store.Entry {
				all[i].Value = append([]byte("9"), e.Value...)
				return all
			})
		}
	}
	for _, n := range []int{1, last[3] + 1} {
		change("a step that should not be there", func(all []store.Entry) []store.Entry {
			return append(all, store.Entry{Key: killKey('m', 3, n), Revision: 1})
		})
	}
}
