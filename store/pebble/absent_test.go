package pebble

import (
	"encoding/binary"
	"fmt"
	"hash/maphash"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"kernos/store"
	"kernos/store/storetest"
)

// eager makes an engine that was not used yet make filters after one lookup in vain, each
// with room for some keys.
func eager(e *Engine, limit int) *absence {
	e.absence.threshold, e.absence.limit = 1, limit
	return e.absence
}

// filtered makes an engine make a filter, and waits until that has its keys.
func filtered(t *testing.T, e *Engine) *filter {
	t.Helper()
	a := e.absence
	a.missed.Store(a.threshold)
	before := a.filter.Load()
	apply(t, e, "m/filtered", "x")
	e.filling.Wait()
	f := a.filter.Load()
	if f == nil || f == before {
		t.Fatal("there is no new filter")
	}
	return f
}

// present fails unless the engine has exactly those of some keys that it should have.
func present(t *testing.T, e *Engine, want map[string]bool) {
	t.Helper()
	for key, is := range want {
		got, err := e.Get([]byte(key))
		if err != nil || (got.Revision != 0) != is {
			t.Errorf("Get of %s: revision %d, %v", key, got.Revision, err)
		}
		e.applyLock <- struct{}{}
		got, err = e.latest([]byte(key))
		<-e.applyLock
		if err != nil || (got.Revision != 0) != is {
			t.Errorf("the revision of %s is %d: %v", key, got.Revision, err)
		}
	}
}

func TestEngineWithAFilter(t *testing.T) {
	open := func(fs vfs.FS, dir string) (store.Store, error) {
		e, err := Open(dir, &Options{FS: fs})
		if err != nil {
			return nil, err
		}
		eager(e, filterLimit)
		return e, nil
	}
	const memory = "filters are in memory only: TestEngine finds the same on the disk"
	storetest.Run(t, storetest.Engine{
		Open:   func(dir string) (store.Store, error) { return open(nil, dir) },
		OpenFS: open,

		Variant: true,
		NoKill:  memory, NoPowerCut: memory,
	})
}

// Writers set and delete keys of their own, and know what there must be; all of them look for
// keys that others have set and no writer deletes. Filters come and go meanwhile.
func TestNothingThatIsThereIsAbsent(t *testing.T) {
	e := mustOpen(t, "store", &Options{FS: vfs.NewMem(), MemTableSize: 256 << 10})
	a := eager(e, 1000)
	const writers, kept = 4, 32
	steps := storetest.Sized(6000)
	var floors [writers * kept]atomic.Uint64 // revisions that a reader has seen
	var filters sync.Map                     // those that were complete
	var all sync.WaitGroup
	for w := range writers {
		all.Go(func() {
			random := rand.New(rand.NewPCG(uint64(w), 1))
			mine := make(map[string]store.Revision)
			var names []string
			for i := range steps {
				key := fmt.Sprintf("m/%d/%d", w, i) // new, as a rule
				if len(names) > 0 && random.IntN(4) == 0 {
					key = names[random.IntN(len(names))]
				}
				got, err := e.Get([]byte(key))
				if err != nil || got.Revision != mine[key] {
					t.Errorf("%s is at revision %d, and not at %d: %v", key, got.Revision, mine[key], err)
					return
				}
				var b store.Batch
				b.IfRevision([]byte(key), mine[key])
				clears := len(names) == 64
				if clears {
					b.DeleteRange(fmt.Appendf(nil, "m/%d/", w), fmt.Appendf(nil, "m/%d0", w))
				}
				deletes := random.IntN(8) == 0
				if deletes {
					b.Delete([]byte(key))
				} else {
					b.Set([]byte(key), []byte("x"))
				}
				k := random.IntN(len(floors))
				b.Set(fmt.Appendf(nil, "i/%d", k), []byte("x"))
				b.Set(fmt.Appendf(nil, "j/%d/%d", w, i), nil)
				c, err := e.Apply(&b)
				if err != nil {
					t.Errorf("%s was at revision %d: %v", key, mine[key], err)
					return
				}
				for floor := &floors[k]; ; {
					was := floor.Load()
					if was >= uint64(c.Revision) || floor.CompareAndSwap(was, uint64(c.Revision)) {
						break
					}
				}
				if clears {
					clear(mine)
					names = names[:0]
				}
				if delete(mine, key); !deletes {
					mine[key] = c.Revision
					names = append(names, key)
				}
				k = random.IntN(len(floors))
				floor := floors[k].Load()
				got, err = e.Get(fmt.Appendf(nil, "i/%d", k))
				if err != nil || uint64(got.Revision) < floor {
					t.Errorf("i/%d was at revision %d, and is at %d: %v", k, floor, got.Revision, err)
					return
				}
				if f := a.filter.Load(); f != nil && f.state.Load() == complete {
					filters.Store(f, true)
				}
			}
			for key, r := range mine {
				if got, err := e.Get([]byte(key)); err != nil || got.Revision != r {
					t.Errorf("%s is at revision %d in the end, and not at %d: %v", key, got.Revision, r, err)
				}
			}
		})
	}
	all.Wait()
	count := 0
	filters.Range(func(any, any) bool { count++; return true })
	if count < 3 {
		t.Errorf("there were %d complete filters", count)
	}
}

func TestAFilterHasWhatWasThere(t *testing.T) {
	e := mustOpen(t, "store", &Options{FS: vfs.NewMem()})
	want := map[string]bool{"": false, "\x00": false, "a": true, "i/1": true, "i/2": false, "j": true, "j/1": true, "j/2": false, "k": true, "m/1": true, "m/2": false, "\xff": true}
	for key, is := range want {
		if is {
			apply(t, e, key, "x")
		}
	}
	f := filtered(t, e)
	if f.state.Load() != complete {
		t.Fatal("the filter is not complete")
	}
	for key, is := range want {
		if covers([]byte(key)) && f.has([]byte(key)) != is {
			t.Errorf("the filter has %q: %v", key, !is)
		}
	}
	if f.has([]byte("j/1")) {
		t.Error("the filter has keys of the journal")
	}
	present(t, e, want)
	asked := e.absence.missed.Load()
	present(t, e, map[string]bool{"m/2": false, "i/2": false})
	if n := e.absence.missed.Load() - asked; n != 0 {
		t.Errorf("Pebble was asked for %d keys that are known to be absent", n)
	}
	want["m/2"], want["j/2"] = true, true
	apply(t, e, "m/2", "x")
	apply(t, e, "j/2", "x")
	present(t, e, want)
	var b store.Batch
	b.DeleteRange([]byte("a"), []byte("z"))
	b.Set([]byte("m/2"), nil)
	if _, err := e.Apply(&b); err != nil {
		t.Fatal(err)
	}
	present(t, e, map[string]bool{"a": false, "i/1": false, "m/1": false, "m/2": true, "\xff": true})
}

// What gathers is not in the library when the filter is begun.
func TestAFilterHasWhatGathers(t *testing.T) {
	e, _, g := gathering(t)
	apply(t, e, "m/gathers", "x")
	if e.queue.settled() {
		t.Error("the batch does not gather")
	}
	filtered(t, e)
	present(t, e, map[string]bool{"m/old": true, "m/first": true, "m/gathers": true, "m/none": false})
	g.Unlock()
}

func TestAFilterKnowsNothingOfSnapshots(t *testing.T) {
	e := mustOpen(t, "store", &Options{FS: vfs.NewMem()})
	set(t, e, "m/1", "x")
	s, err := e.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	var b store.Batch
	b.Delete([]byte("m/1"))
	if _, err := e.Apply(&b); err != nil {
		t.Fatal(err)
	}
	if f := filtered(t, e); f.has([]byte("m/1")) {
		t.Error("the filter has a key that was deleted before")
	}
	present(t, e, map[string]bool{"m/1": false})
	if got, err := s.Get([]byte("m/1")); err != nil || got.Revision == 0 {
		t.Errorf("the snapshot has %v, %v", got, err)
	}
}

func TestAFilterIsGivenUp(t *testing.T) {
	const limit = 32
	for name, fill := range map[string]func(*Engine){
		"many":  func(e *Engine) { fillStore(t, e, 2*limit, 1) },
		"large": func(e *Engine) { fillStore(t, e, 5, limit*largeEntry) },
	} {
		t.Run(name, func(t *testing.T) {
			e := mustOpen(t, "store", &Options{FS: vfs.NewMem()})
			fill(e)
			a := eager(e, limit)
			if f := filtered(t, e); f.state.Load() != failed {
				t.Errorf("a filter with too many keys has state %d", f.state.Load())
			}
			present(t, e, map[string]bool{"m/00000004": true, "m/none": false})
			apply(t, e, "m/1", "x")
			if f := a.filter.Load(); f != nil || a.threshold != 16 {
				t.Errorf("there is a filter %v, and %d lookups pay for the next one", f, a.threshold)
			}
			present(t, e, map[string]bool{"m/00000004": true, "m/none": false})
		})
	}
}

func TestAFilterIsDroppedWhenItIsFull(t *testing.T) {
	a := &absence{threshold: 10, limit: 64}
	keys := 0
	change := func(n int) *filter {
		var b store.Batch
		for range n {
			keys++
			b.Set(fmt.Appendf(nil, "m/%d", keys), nil)
		}
		return a.add(&b)
	}
	a.missed.Store(9)
	if change(1) != nil || a.filter.Load() != nil {
		t.Error("a filter is made too soon")
	}
	a.missed.Store(10)
	f := change(1)
	if f == nil || a.missed.Load() != 0 || f.added != 1 {
		t.Fatal("no filter is made")
	}
	if change(200) != nil || a.filter.Load() != f {
		t.Error("a filter is dropped while it is filled")
	}
	f.state.Store(complete)
	if change(0) != nil || a.filter.Load() != nil {
		t.Error("a full filter is not dropped")
	}
	a.missed.Store(10)
	if change(1) == nil {
		t.Error("there is no filter after a full one")
	}
}

func TestAFilterIsRarelyWrong(t *testing.T) {
	f := &filter{seed: maphash.MakeSeed(), words: make([]atomic.Uint64, filterWords)}
	random := rand.New(rand.NewPCG(1, 2))
	key := func() []byte { return binary.LittleEndian.AppendUint64(nil, random.Uint64()) }
	wrong := func() float64 {
		tries := storetest.Sized(100_000)
		n := 0
		for range tries {
			if f.has(key()) {
				n++
			}
		}
		return float64(n) / float64(tries)
	}
	for _, most := range []float64{0.005, 0.05} { // when it is complete, and when it is full
		for range storetest.Sized(filterLimit) {
			k := key()
			f.add(k)
			if !f.has(k) || f.add(k) {
				t.Fatal("a key is not there")
			}
		}
		if got := wrong(); got > most {
			t.Errorf("%.4f of the keys seem to be there", got)
		}
	}
}

// A stop holds up reading of tables, or fails it.
type stop struct {
	gate
	on   atomic.Bool
	hits chan struct{}
	err  error
}

func (s *stop) MaybeError(op errorfs.Op) error {
	if !s.on.Load() || !strings.HasSuffix(op.Path, ".sst") || op.Kind != errorfs.OpFileReadAt {
		return nil
	}
	select {
	case s.hits <- struct{}{}:
	default:
	}
	s.RLock()
	defer s.RUnlock()
	return s.err
}

// stopping returns an engine with keys in a table that was not read yet.
func stopping(t *testing.T, s *stop) *Engine {
	t.Helper()
	s.hits = make(chan struct{}, 1)
	fs := errorfs.Wrap(vfs.NewMem(), s)
	e := mustOpen(t, "store", &Options{FS: fs})
	fillStore(t, e, 1000, 100)
	if err := e.db.Flush(); err != nil {
		t.Fatal(err)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	return mustOpen(t, "store", &Options{FS: fs})
}

func TestCloseWhileAFilterIsFilled(t *testing.T) {
	s := new(stop)
	e := stopping(t, s)
	s.on.Store(true)
	s.Lock()
	a := e.absence
	a.missed.Store(a.threshold)
	apply(t, e, "m/1", "x")
	<-s.hits
	if !a.filter.Load().has([]byte("m/1")) {
		t.Error("the change that begins a filter is not in it")
	}
	closed := make(chan error, 1)
	go func() { closed <- e.Close() }()
	<-e.closing
	s.Unlock()
	if err := <-closed; err != nil {
		t.Error(err)
	}
	if got := a.filter.Load().state.Load(); got != failed {
		t.Errorf("Close waits until a filter is full: its state is %d", got)
	}
}

func TestAFilterOfADiskThatFails(t *testing.T) {
	s := &stop{err: syscall.EIO}
	e := stopping(t, s)
	s.on.Store(true)
	if f := filtered(t, e); f.state.Load() != failed {
		t.Error("a filter without its keys is complete")
	}
	s.on.Store(false)
	want := map[string]bool{"m/00000001": true, "m/filtered": true, "m/none": false}
	present(t, e, want)
	apply(t, e, "m/1", "x")
	if e.absence.filter.Load() != nil || e.absence.threshold != 16*filterThreshold {
		t.Error("the filter is still there, or the next one comes too soon")
	}
	if f := filtered(t, e); f.state.Load() != complete {
		t.Error("the next filter is not complete")
	}
	present(t, e, want)
}
