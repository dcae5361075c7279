package storetest

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"kernos/store"
)

// runFaults lets each call of the file system fail, one run for each.
func runFaults(t *testing.T, e Engine) {
	calls, err := fault{}.run(e)
	if err != nil {
		t.Fatalf("without a fault: %v", err)
	}
	var faults []fault
	turn := random(t).IntN(2)
	for at := 1; at <= calls; at++ {
		for i, code := range []syscall.Errno{syscall.EIO, syscall.ENOSPC} {
			for j, lasting := range []bool{false, true} {
				// A short run has one fault for every second call, of a kind by turns, and the next run perhaps for
				// the others; with the race detector, for every tenth, and of a variant for every fourth.
				if *long || at%4 == 2*i+j && at/4%2 == turn && (!raced || at%5 == 0) && (!e.Variant || at/8%2 == 0) {
					faults = append(faults, fault{at: at, lasting: lasting, code: code})
				}
			}
		}
	}
	next := make(chan fault)
	failed := make(chan struct{})
	var once sync.Once
	var group sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		group.Go(func() {
			for f := range next {
				if _, err := f.run(e); err != nil {
					t.Error(err)
					once.Do(func() { close(failed) })
				}
			}
		})
	}
	began := time.Now()
feed:
	for _, f := range faults {
		select {
		case next <- f:
		case <-failed: // the others are likely to be the same
			break feed
		}
	}
	close(next)
	group.Wait()
	t.Logf("%d faults in %d calls, %v", len(faults), calls, time.Since(began).Round(time.Millisecond))
}

// A fault is one that is injected into a run. The zero value injects nothing.
type fault struct {
	at      int // the number of the call that fails
	lasting bool
	code    syscall.Errno

	patience time.Duration // 0 means the usual
}

// A faulty run is a store on a disk with a fault.
type faulty struct {
	fault  fault
	engine Engine
	disk   *disk
	store  store.Store

	mu     sync.Mutex
	calls  int
	hit    string // the call that failed first
	read   bool   // the failed call was reading
	healed bool

	batches      int
	acknowledged map[int]bool
}

// run returns how many calls the engine has made.
func (f fault) run(e Engine) (int, error) {
	if f.patience == 0 {
		f.patience = patience
	}
	r := &faulty{fault: f, engine: e, disk: &disk{MemFS: vfs.NewCrashableMem()}, acknowledged: make(map[int]bool)}
	ended := make(chan error, 1)
	go func() { ended <- r.run() }()
	var err error
	select {
	case err = <-ended:
	case <-time.After(2*patience + f.patience):
		stacks := make([]byte, 1<<20)
		err = fmt.Errorf("%w:\n%s", errHanging, stacks[:runtime.Stack(stacks, true)])
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil && f.at > 0 {
		once := "once"
		if f.lasting {
			once = "and all after it"
		}
		err = fmt.Errorf("call %d (%s) failed %s with %v: %w", f.at, r.hit, once, f.code, err)
	}
	return r.calls, err
}

// inject is asked at each call of the file system.
func (r *faulty) inject(op errorfs.Op) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls++
	if r.fault.at == 0 || r.healed || r.calls < r.fault.at {
		return nil
	}
	if r.hit == "" {
		r.hit = callName(op)
		r.read = op.Kind.ReadOrWrite() == errorfs.OpIsRead
	} else if !r.fault.lasting {
		return nil
	}
	if r.fault.lasting && op.Kind.ReadOrWrite() == errorfs.OpIsRead != r.read {
		return nil // a disk that is full can be read
	}
	return r.fault.code
}

// hitYet returns whether the fault has happened, and whether it hit a reading call.
func (r *faulty) hitYet() (hit, read bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.hit != "", r.read
}

// heal ends the fault if it has begun.
func (r *faulty) heal() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.healed = r.healed || r.hit != ""
}

// excused returns an error that has no excuse.
func (r *faulty) excused(what string, err error) error {
	if err == nil {
		return nil
	}
	if hit, _ := r.hitYet(); !hit {
		return fmt.Errorf("%s, and nothing was wrong with the disk yet: %w", what, err)
	}
	if errors.Is(err, errHanging) {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

func (r *faulty) run() error {
	fs := errorfs.Wrap(r.disk, errorfs.InjectorFunc(r.inject))
	for round := range 2 {
		if err := r.open(fs); err != nil {
			return fmt.Errorf("round %d: %w", round, err)
		}
		err := r.work()
		if err == nil {
			err = r.recovered()
		}
		var before []store.Entry
		if err == nil {
			before, err = entries(r.store, store.Range{})
		}
		cut := r.disk.CrashClone(vfs.CrashCloneCfg{})
		closed := r.store.Close()
		if err == nil {
			err = r.excused("Close", closed)
		}
		if err != nil {
			return fmt.Errorf("round %d: %w", round, err)
		}
		r.heal() // whatever Close has met
		if hit, _ := r.hitYet(); !hit {
			continue
		}
		if err := r.compare(r.disk, before, closed); err != nil {
			return fmt.Errorf("round %d, opened again: %w", round, err)
		}
		if err := r.compare(cut, nil, nil); err != nil {
			return fmt.Errorf("round %d, after a power cut: %w", round, err)
		}
	}
	return nil
}

// open opens the store, if necessary after the fault is over.
func (r *faulty) open(fs vfs.FS) error {
	s, err := r.engine.OpenFS(fs, "store")
	if err != nil {
		if err := r.excused("Open", err); err != nil {
			return err
		}
		r.heal()
		if s, err = r.engine.OpenFS(fs, "store"); err != nil {
			return fmt.Errorf("the disk is well again, and the store can't be opened: %w", err)
		}
	}
	r.store = s
	return nil
}

// work writes some batches and looks at them.
func (r *faulty) work() error {
	promises := 2 // of a store that has met the fault, taken at its word
	for range 6 {
		done, err := r.write()
		if err != nil {
			return err
		}
		if hit, _ := r.hitYet(); hit && done && promises > 0 {
			promises--
			if err := r.compare(r.disk.CrashClone(vfs.CrashCloneCfg{}), nil, nil); err != nil {
				return fmt.Errorf("batch %d was acknowledged in spite of the fault; after a power cut: %w", r.batches, err)
			}
		}
		if err := r.look(r.store); err != nil {
			return err
		}
	}
	return nil
}

// write writes a batch. It reports whether it is durable.
func (r *faulty) write() (bool, error) {
	r.batches++
	n := r.batches
	b := new(store.Batch)
	b.Set(fmt.Appendf(nil, "m/%03d", n), []byte(strings.Repeat(fmt.Sprint(n, " "), 50*(n%3))))
	b.Set(fmt.Appendf(nil, "j/%03d", n), fmt.Append(nil, n))
	b.Set([]byte("m/last"), fmt.Append(nil, n))
	c, err := r.store.Apply(b)
	if err != nil {
		if !coded(err) {
			return false, fmt.Errorf("batch %d: Apply has an error without a code: %w", n, err)
		}
		if e, err := r.store.Get(fmt.Appendf(nil, "j/%03d", n)); err == nil && e.Revision != 0 {
			return false, fmt.Errorf("batch %d: Apply failed, and it is there", n)
		}
		return false, r.excused(fmt.Sprintf("batch %d: Apply", n), err)
	}
	if err := awaitFor(c, r.fault.patience); err != nil {
		if !coded(err) && !errors.Is(err, errHanging) {
			return false, fmt.Errorf("batch %d: the commit has an error without a code: %w", n, err)
		}
		return false, r.excused(fmt.Sprintf("batch %d: commit", n), err)
	}
	r.acknowledged[n] = true
	return true, nil
}

// look checks that what was acknowledged is there and that nothing is half there.
func (r *faulty) look(s store.Reader) error {
	fails := func(err error) error {
		if _, read := r.hitYet(); !read {
			return fmt.Errorf("reading fails, and only writing is broken: %w", err)
		}
		if !coded(err) {
			return fmt.Errorf("reading has an error without a code: %w", err)
		}
		return r.excused("reading", err)
	}
	values, err := entries(s, store.Prefix([]byte("m/")))
	if err != nil {
		return fails(err)
	}
	index, err := entries(s, store.Prefix([]byte("j/")))
	if err != nil {
		return fails(err)
	}
	if len(values) != len(index)+min(len(index), 1) { // m/last
		return fmt.Errorf("a batch is half there: %s%s", show(values), show(index))
	}
	there := make(map[int]bool)
	for i, e := range index {
		if e.Revision != values[i].Revision || string(e.Key[2:]) != string(values[i].Key[2:]) {
			return fmt.Errorf("a batch is half there: %s%s", show(values[i:]), show(index[i:]))
		}
		n := 0
		if _, err := fmt.Sscan(string(e.Value), &n); err != nil {
			return fmt.Errorf("%q has the value %q", e.Key, e.Value)
		}
		if string(values[i].Value) != strings.Repeat(fmt.Sprint(n, " "), 50*(n%3)) {
			return fmt.Errorf("batch %d has another value", n)
		}
		there[n] = true
	}
	for n := range r.acknowledged {
		if !there[n] {
			return fmt.Errorf("batch %d was acknowledged and is lost", n)
		}
		e, err := s.Get(fmt.Appendf(nil, "j/%03d", n))
		if err != nil {
			return fails(err)
		}
		if e.Revision == 0 {
			return fmt.Errorf("batch %d is in a scan and Get does not find it", n)
		}
	}
	return nil
}

// recovered ends the fault and waits until the store writes again.
func (r *faulty) recovered() error {
	if hit, _ := r.hitYet(); !hit {
		return nil
	}
	r.heal()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(r.fault.patience); ; <-tick.C {
		done, err := r.write()
		if err != nil {
			return err
		}
		if done {
			break
		}
		if time.Now().After(end) {
			return errors.New("the disk is well again, and the store does not write")
		}
	}
	for range 3 {
		done, err := r.write()
		if err != nil {
			return err
		}
		if !done {
			return errors.New("the disk is well again and the store was, and now it does not write")
		}
	}
	// A reader that met the fault may try again, and then sees everything.
	if _, err := entries(r.store, store.Range{}); err != nil {
		return fmt.Errorf("the disk is well again, and reading fails: %w", err)
	}
	return r.look(r.store)
}

// compare opens the store once more, on a disk that is well. If it was closed well, it
// has what it had.
func (r *faulty) compare(fs vfs.FS, before []store.Entry, closed error) error {
	s, err := r.engine.OpenFS(fs, "store")
	if err != nil {
		return fmt.Errorf("it can't be opened: %w", err)
	}
	err = r.look(s)
	if err == nil && before != nil && closed == nil {
		after, scanned := entries(s, store.Range{})
		switch {
		case scanned != nil:
			err = scanned
		case !equal(before, after):
			err = fmt.Errorf("it was closed with%s\nand has%s", show(before), show(after))
		}
	}
	if closed := s.Close(); err == nil {
		err = closed
	}
	return err
}

// callName names a call of the file system for a failure.
func callName(op errorfs.Op) string {
	names := map[errorfs.OpKind]string{
		errorfs.OpCreate: "create", errorfs.OpLink: "link", errorfs.OpOpen: "open", errorfs.OpOpenDir: "open directory",
		errorfs.OpRemove: "remove", errorfs.OpRemoveAll: "remove all", errorfs.OpRename: "rename",
		errorfs.OpReuseForWrite: "reuse", errorfs.OpMkdirAll: "make directory", errorfs.OpLock: "lock",
		errorfs.OpList: "list", errorfs.OpFilePreallocate: "preallocate", errorfs.OpStat: "stat",
		errorfs.OpGetDiskUsage: "disk usage", errorfs.OpFileRead: "read", errorfs.OpFileReadAt: "read at",
		errorfs.OpFileWrite: "write", errorfs.OpFileWriteAt: "write at", errorfs.OpFileStat: "stat of file",
		errorfs.OpFileSync: "sync", errorfs.OpFileSyncData: "sync data", errorfs.OpFileSyncTo: "sync to", errorfs.OpFileFlush: "flush",
	}
	name, ok := names[op.Kind]
	if !ok {
		name = fmt.Sprint(op.Kind)
	}
	return name + " " + op.Path
}
