package storetest

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"kernos/store"
)

// runPowerCut records a workload on a file system that forgets what was not synced, and
// looks at the disk as it would be found if the power had been cut before every single
// change to it: if nothing had survived that was not synced, if half of it had, and if all had. A short run
// takes the last two by turns.
func runPowerCut(t *testing.T, e Engine) {
	w := workload{rounds: 3, writers: 3, batches: 8, every: 3, large: 20}
	switch {
	case *long:
		w = workload{rounds: 4, writers: 8, batches: 20, every: 1, large: 6}
	case raced:
		w = workload{rounds: 2, writers: 2, batches: 4, every: 3, large: 20}
	}
	cuts, err := powerCut(e, w, random(t))
	if err != nil {
		t.Error(err)
	}
	t.Logf("%d power cuts", cuts)
}

// A workload is batches that are written while the power may be cut.
type workload struct {
	rounds  int // the store is opened and closed so often
	writers int // at the same time
	batches int // of each writer and round; each waits for its commit
	every   int // one of this many cuts is followed by a second one
	large   int // one of this many values is large: Pebble looks for a flipped bit in what is left of it, which takes half a second
}

// A cut is what one power cut has left.
type cut struct {
	at           int    // the number of the first change that did not happen
	call         string // the call that made this change
	percent      int    // of what was not synced that survived
	acknowledged store.Revision
	disk         *vfs.MemFS

	found  [sha256.Size]byte // a digest of the state after recovery
	newest store.Revision
	err    error
}

func (c *cut) errorf(format string, args ...any) error {
	return fmt.Errorf("the power was cut before change %d (%s), %d%% of what was not synced survived, revision %d was acknowledged: %w",
		c.at, c.call, c.percent, c.acknowledged, fmt.Errorf(format, args...))
}

// powerCut returns how many cuts it has looked at.
func powerCut(e Engine, w workload, random *rand.Rand) (int, error) {
	disk := &disk{MemFS: vfs.NewCrashableMem()}
	history := &history{batches: make(map[store.Revision]*store.Batch)}
	found := make(chan *cut, 4) // bounds the disks in memory
	var cuts []*cut
	var checking sync.WaitGroup
	var mu sync.Mutex
	turn := random.IntN(2)
	for range 2 {
		checking.Go(func() {
			for c := range found {
				c.err = c.check(e, c.at%w.every == 0)
				c.disk = nil
				mu.Lock()
				cuts = append(cuts, c)
				mu.Unlock()
			}
		})
	}
	changes := 0
	cutNow := func(call string) {
		disk.mu.Lock()
		defer disk.mu.Unlock()
		changes++
		for i, percent := range []int{0, 50, 100} {
			if i > 0 && !*long && (changes+i+turn)%2 == 0 {
				continue
			}
			c := &cut{at: changes, call: call, percent: percent, acknowledged: history.newest()}
			c.disk = disk.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: percent, RNG: random})
			found <- c
		}
	}
	err := w.write(e, random.Uint64(), history, errorfs.Wrap(disk, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind.ReadOrWrite() == errorfs.OpIsWrite {
			cutNow(callName(op))
		}
		return nil
	})))
	cutNow("the end")
	close(found)
	checking.Wait()
	if err != nil {
		return 0, err
	}

	// Every state that was found must be one that was there once, and not an older one
	// than what had been acknowledged.
	states := history.states()
	slices.SortFunc(cuts, func(a, b *cut) int { return a.at - b.at })
	for _, c := range cuts {
		if c.err != nil {
			return len(cuts), c.err
		}
		revision, ok := states[c.found]
		switch {
		case !ok:
			return len(cuts), c.errorf("what is found is a state that never was: a batch is half there, or there without an earlier one; the newest revision in it is %d", c.newest)
		case revision < c.acknowledged:
			return len(cuts), c.errorf("what is found is the state of revision %d", revision)
		}
	}
	return len(cuts), nil
}

// check opens what is left, and checks that the store works with it, also
// after another power cut.
func (c *cut) check(e Engine, twice bool) error {
	s, err := e.OpenFS(c.disk, "store")
	if err != nil {
		return c.errorf("it can't be opened: %w", err)
	}
	all, err := entries(s, store.Range{})
	if err != nil {
		_ = s.Close() // the first error is the one to show
		return c.errorf("it can't be read: %w", err)
	}
	c.found, c.newest = digest(all), newest(all)
	if !twice {
		if err := s.Close(); err != nil {
			return c.errorf("it can't be closed: %w", err)
		}
		return nil
	}

	b := sets("m/afterwards", "set")
	b.IfAbsent([]byte("m/afterwards"))
	commit, err := s.Apply(b)
	if err == nil {
		err = await(commit)
	}
	again := c.disk.CrashClone(vfs.CrashCloneCfg{})
	if closed := s.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return c.errorf("it can't be written: %w", err)
	}
	if commit.Revision <= c.newest {
		return c.errorf("revision %d is given again: a new batch has %d", c.newest, commit.Revision)
	}
	s, err = e.OpenFS(again, "store")
	if err != nil {
		return c.errorf("after a second cut it can't be opened: %w", err)
	}
	defer s.Close()
	after, err := entries(s, store.Range{})
	if err != nil {
		return c.errorf("after a second cut it can't be read: %w", err)
	}
	at := slices.IndexFunc(after, func(e store.Entry) bool { return string(e.Key) == "m/afterwards" })
	if at < 0 || after[at].Revision != commit.Revision {
		return c.errorf("a second cut lost the batch that was acknowledged after the first")
	}
	if digest(slices.Delete(after, at, at+1)) != c.found {
		return c.errorf("a second cut changed what was there after the first")
	}
	return nil
}

// A disk is a MemFS that can be cloned at any moment.
type disk struct {
	*vfs.MemFS
	mu sync.Mutex
}

// Link of a MemFS waits for ever if the file system is cloned in the middle of it.
func (d *disk) Link(from, to string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.MemFS.Link(from, to)
}

// A history is what was done to a store.
type history struct {
	acknowledged atomic.Uint64 // the newest revision that is known to be durable

	mu      sync.Mutex
	batches map[store.Revision]*store.Batch
}

func (h *history) newest() store.Revision { return store.Revision(h.acknowledged.Load()) }

func (h *history) applied(r store.Revision, b *store.Batch) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.batches[r] = b
}

func (h *history) durable(r store.Revision) {
	for {
		old := h.acknowledged.Load()
		if old >= uint64(r) || h.acknowledged.CompareAndSwap(old, uint64(r)) {
			return
		}
	}
}

// states returns the digest of each state that the store has gone through.
func (h *history) states() map[[sha256.Size]byte]store.Revision {
	states := map[[sha256.Size]byte]store.Revision{digest(nil): 0}
	var s state
	revisions := make([]store.Revision, 0, len(h.batches))
	for r := range h.batches {
		revisions = append(revisions, r)
	}
	slices.Sort(revisions)
	for _, r := range revisions {
		s.revision = r
		s.change(h.batches[r])
		var all []store.Entry
		s.tree.walk(store.Range{}, func(n *node) bool {
			all = append(all, store.Entry{Key: n.key, Value: n.value, Revision: n.revision})
			return true
		})
		states[digest(all)] = r
	}
	return states
}

// digest is different for states that differ.
func digest(all []store.Entry) [sha256.Size]byte {
	var text []byte
	for _, e := range all {
		text = binary.AppendUvarint(text, uint64(len(e.Key)))
		text = append(text, e.Key...)
		text = binary.AppendUvarint(text, uint64(len(e.Value)))
		text = append(text, e.Value...)
		text = binary.AppendUvarint(text, uint64(e.Revision))
	}
	return sha256.Sum256(text)
}

func newest(all []store.Entry) (r store.Revision) {
	for _, e := range all {
		r = max(r, e.Revision)
	}
	return r
}

// write does the work.
func (w workload) write(e Engine, seed uint64, h *history, fs vfs.FS) error {
	for round := range w.rounds {
		s, err := e.OpenFS(fs, "store")
		if err != nil {
			return fmt.Errorf("round %d: %w", round, err)
		}
		failed := make(chan error, w.writers)
		for writer := range w.writers {
			random := rand.New(rand.NewPCG(seed, uint64(round*w.writers+writer)))
			go func() { failed <- w.writer(s, h, random, fmt.Sprintf("%d/%d", round, writer)) }()
		}
		for range w.writers {
			if f := <-failed; err == nil {
				err = f
			}
		}
		if closed := s.Close(); err == nil {
			err = closed
		}
		if err != nil {
			return fmt.Errorf("round %d: %w", round, err)
		}
	}
	return nil
}

func (w workload) writer(s store.Store, h *history, random *rand.Rand, name string) error {
	counter := []byte("m/counter/" + name)
	var at store.Revision
	for n := range w.batches {
		b := new(store.Batch)
		b.Set(fmt.Appendf(nil, "j/%s/%03d", name, n), []byte("done"))
		b.IfRevision(counter, at)
		b.Set(counter, fmt.Append(nil, n))
		for range random.IntN(4) {
			size := random.IntN(200)
			if random.IntN(w.large) == 0 { // more than a block of the disk, and of a log
				size = random.IntN(70_000)
			}
			b.Set(fmt.Appendf(nil, "m/%02d", random.IntN(30)), noise(random, size))
		}
		b.Delete(fmt.Appendf(nil, "m/%02d", random.IntN(30)))
		if random.IntN(5) == 0 {
			from := random.IntN(30)
			b.DeleteRange(fmt.Appendf(nil, "m/%02d", from), fmt.Appendf(nil, "m/%02d", from+5))
		}
		c, err := s.Apply(b)
		if err != nil {
			return err
		}
		at = c.Revision
		h.applied(at, b)
		if n%4 == 3 {
			continue // several commits are pending together
		}
		// This takes as long as the cuts before it are checked, which no patience bounds.
		if err := c.Wait(context.Background()); err != nil {
			return err
		}
		h.durable(at)
	}
	return nil
}
