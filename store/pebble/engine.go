// Package pebble is the embedded engine: a store in a directory, on Pebble of
// CockroachDB.
//
//	e, err := pebble.Open(dir, nil)
//	defer e.Close()
//	commit, err := e.Apply(&batch)
//	err = commit.Wait(ctx)
//
// Pebble keeps the entries. This package gives it the contract of package store, and adds
// what Pebble leaves open: which process has the directory (lock.go), whether the directory
// is ours and whole (directory.go, inspect.go), the form of what is stored (schema.go), what
// happens when the disk is full or fails (disk.go, health.go), and backups (export.go,
// import.go).
//
// # How a batch becomes durable
//
// Commits are grouped. Apply holds a lock: one batch at a time is checked, encoded and
// added to the open group of the queue (queue.go), and is visible from then on. The syncer
// (sync.go) waits for the log of Pebble and resolves the commits in their order. While it
// waits for one fsync, batches join the open group; then it gives that group to Pebble, for
// the next fsync. A writer that is alone gives its batch to Pebble itself.
//
// With a publisher (publish.go), a group goes to other machines while it goes to the disk, and its commits are resolved when
// both have it. What they never accept is taken back by records next to it (position.go). The other machines apply the same
// groups to copies of the store (copy.go).
//
// Readers find the latest values in the cache (cache.go), or give the open group to Pebble
// before they ask Pebble. Keys that don't exist are known without Pebble (absent.go).
//
// Pebble may have to wait for the disk before it takes a batch: when its table in memory is
// full, or the batch is large (memtable.go). Then the batch is given to Pebble alone, by a
// goroutine of its own, so that the caller need not wait if the disk fails.
//
// If the disk fails, the monitor resolves all pending commits at once with the error, and
// Apply refuses batches until the disk works again.
//
// # Goroutines
//
//   - The syncer and the monitor, one each per store: [Open] starts them, and they end with [Engine.Close].
//   - A batch for which Pebble may have to wait, one: [Engine.Apply] starts it, and it ends when Pebble has taken the
//     batch.
//   - Filling the filter of absent keys, one: lookups in vain start it. It ends when all keys are in the filter, or
//     with Close.
//   - Giving up on a disk that doesn't answer, one, while Close runs.
package pebble

import (
	"cmp"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	crdb "github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/vfs"

	"kernos/store"
)

// Options are the settings of an engine. The zero value has good ones.
type Options struct {
	FS           vfs.FS        // nil means the disk
	Log          *slog.Logger  // nil means that nothing is logged
	CacheSize    int64         // bytes of cached blocks; 0 means 64 MB
	MemTableSize int           // bytes of changes that are in the log only; 0 means 16 MB
	CloseTimeout time.Duration // how long Close waits for a disk that fails; 0 means 2 s
	Address      string        // address of this process, for processes that find the store in use

	// Watchers are notified of changes. Stores that are opened one after the other may share them,
	// so that watchers survive. Nil means those of this store only.
	Watchers *store.Watchers

	// Copy opens a store as a copy that follows an owner, or that an owner has: see copy.go. Without it, Open refuses a
	// store that is one.
	Copy bool

	schema *schema // replaces the schema in tests
}

func (o *Options) defaults() Options {
	var all Options
	if o != nil {
		all = *o
	}
	all.FS = cmp.Or(all.FS, vfs.Default)
	all.Log = cmp.Or(all.Log, slog.New(slog.DiscardHandler))
	all.CacheSize = cmp.Or(all.CacheSize, 64<<20)
	all.MemTableSize = cmp.Or(all.MemTableSize, 16<<20)
	all.CloseTimeout = cmp.Or(all.CloseTimeout, 2*time.Second)
	all.Watchers = cmp.Or(all.Watchers, new(store.Watchers))
	all.schema = cmp.Or(all.schema, current())
	return all
}

// spareGroups is how many groups are kept to be used again.
const spareGroups = 4

// stopWrites is how many memtables there may be before writers wait.
const stopWrites = 4

// Pebble begins a compaction when half of l0Tables overlap, and one of a table by itself when
// deadBlocks of its blocks are mostly deletions. A table has keys of all spaces, so that each
// compaction rewrites nearly the whole store: with Pebble's own figures, 4 and 0.1, it wrote each
// byte five times instead of twice, which was a fifth of the CPU time of a change.
const (
	l0Tables   = 12
	deadBlocks = 0.5
)

// forPebble returns the settings of Pebble.
func (o *Options) forPebble(log crdb.Logger) *crdb.Options {
	all := &crdb.Options{
		CacheSize:                   o.CacheSize,
		MemTableSize:                uint64(o.MemTableSize),
		MemTableStopWritesThreshold: stopWrites,
		L0CompactionThreshold:       l0Tables,
		L0StopWritesThreshold:       64,
		MaxOpenFiles:                500,
		// A version of Pebble that knows newer formats must not change the
		// directory by itself: older versions of kernos could no longer read it.
		FormatMajorVersion: crdb.FormatValueSeparation,
		Logger:             log,
	}
	all.Experimental.TombstoneDenseCompactionThreshold = deadBlocks
	all.ApplyCompressionSettings(func() crdb.DBCompressionSettings { return crdb.DBCompressionFastest })
	for i := range all.Levels {
		all.Levels[i].FilterPolicy = bloom.FilterPolicy(10)
	}
	return all
}

// An Engine is a store in a directory.
type Engine struct {
	dir    string
	opts   Options
	db     *crdb.DB
	disk   *disk
	health *health
	lock   *lock // nil if the file system is not the disk

	retryAt  time.Time     // the earliest time to open again an engine that was opened for reading: see refusal
	closing  chan struct{} // closed when Close begins
	closed   chan struct{} // closed when Close has ended
	closeErr error

	// Writing: see apply.go.
	slots        chan struct{} // one element for each batch that is not durable yet
	applyLock    chan struct{} // held to apply a batch; a channel, so that waiting for it can end
	memtable     memtableSpace
	cacheChanges []cacheChange  // cache changes of the batch that is being applied; guarded by applyLock
	revision     store.Revision // revision of the last batch; guarded by applyLock
	lease        store.Revision // the last revision that may be given out; guarded by applyLock
	flushing     sync.Mutex     // the right to give the open group to Pebble
	queue        queue
	groups       chan *group // empty ones, to be used again
	publishing   *publishing // nil without a publisher: see publish.go

	writing     sync.WaitGroup // the syncer, and applySlowly
	filling     sync.WaitGroup // fill: see absent.go
	monitoring  sync.WaitGroup // the monitor
	stopMonitor chan struct{}

	// Reading: see read.go.
	life    sync.RWMutex // held by readers, and by Close
	dead    bool         // Pebble is closed
	handles handles
	cache   *cache
	absence *absence

	closeOnce sync.Once
}

// Open opens the store in a directory, and makes it if there is none. Its errors are a
// [store.Error], and describe what to do: 503 if another process has the store, if it is of a
// newer version, or can't be written; 507 if the disk is full; 500 if the directory is
// damaged or has something else in it. Then nothing in it was changed.
func Open(dir string, options *Options) (*Engine, error) {
	opts := options.defaults()
	fs := opts.FS
	onDisk := vfs.Root(fs) == vfs.Default
	if onDisk {
		abs, err := filepath.Abs(dir)
		if err != nil {
			return nil, unreadable(dir, err)
		}
		dir = abs
	}
	k, err := recognise(fs, dir)
	if err != nil {
		return nil, err
	}
	if k == absent {
		if err := makeDir(fs, dir); errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
			return nil, store.Errorf(503, err, "The directory %s can't be made: use another KERNOS_HOME", dir)
		} else if err != nil {
			return nil, unwritable(dir, err)
		}
	}
	var l *lock
	if onDisk {
		if l, err = acquire(dir); err != nil {
			return nil, err
		}
	}
	e, err := open(dir, opts, l)
	if err != nil {
		l.undo()
		return nil, err
	}
	return e, nil
}

// newEngine returns an engine without Pebble.
func newEngine(dir string, opts Options, l *lock) *Engine {
	h := newHealth(dir)
	e := &Engine{
		dir: dir, opts: opts, disk: newDisk(opts.FS, h), health: h, lock: l, cache: newCache(), absence: newAbsence(),
		closing: make(chan struct{}), closed: make(chan struct{}), stopMonitor: make(chan struct{}),
		slots: make(chan struct{}, maxPending), applyLock: make(chan struct{}, 1), groups: make(chan *group, spareGroups),
	}
	e.queue.news.L = &e.queue.mu
	e.queue.single = true
	return e
}

// open is Open with the lock held.
func open(dir string, opts Options, l *lock) (*Engine, error) {
	fs := opts.FS
	k, err := recognise(fs, dir) // another process may have changed it before the lock was taken
	if err != nil {
		return nil, err
	}
	log := &logger{log: opts.Log}
	switch k {
	case ours:
		if err := inspect(fs, dir, *opts.schema, opts.forPebble(log)); err != nil {
			return nil, err
		}
	case unfinished:
		if err = clean(fs, dir, false); err == nil {
			err = begin(fs, dir)
		}
	default:
		err = begin(fs, dir)
	}
	if err == nil && l != nil {
		err = l.sign(self(opts.Address))
	}
	if err != nil {
		return nil, unwritable(dir, err)
	}

	e := newEngine(dir, opts, l)
	log.fatal = func(err error) {
		e.disk.freeze(store.Errorf(503, err, "The store in %s can't continue to write; start kernos again", dir))
	}
	err = e.openPebble(log)
	if err == nil {
		err = e.prepare()
	}
	if cause := e.disk.opened(); cause != nil {
		err = unwritable(dir, cause)
	}
	if err == nil && k != ours {
		if err = finish(fs, dir); err != nil {
			err = unwritable(dir, err)
		}
	}
	if err != nil {
		e.disk.freeze(err)
		if e.db != nil {
			_ = e.db.Close() // the first error is the one to show
		}
		if k != ours {
			_ = clean(fs, dir, true) // if it can't be, the next Open does it
		}
		return nil, err
	}
	e.health.update(func() { e.health.unflushed = 0 })
	e.writing.Go(e.runSyncer)
	e.monitoring.Go(e.runMonitor)
	return e, nil
}

func (e *Engine) openPebble(log *logger) (err error) {
	o := e.opts.forPebble(log)
	o.FS = e.disk
	listener := e.health.eventListener()
	// Errors go to the log as texts: Pebble's own have their stack with them.
	listener.DataCorruption = func(info crdb.DataCorruptionInfo) {
		if log.isNew(problemOf(info.Path, info.Details)) {
			e.opts.Log.Error("the file "+info.Path+" of the store is damaged", "error", oneLine("%v", info.Details))
		}
	}
	listener.BackgroundError = func(err error) {
		if log.isNew(problemOf("", err)) {
			e.opts.Log.Warn("the store can't tidy up", "dir", e.dir, "error", oneLine("%v", err))
		}
	}
	counted := listener.WALCreated
	listener.WALCreated = func(info crdb.WALCreateInfo) {
		e.memtable.renewed(int64(e.opts.MemTableSize))
		if counted != nil {
			counted(info)
		}
	}
	o.EventListener = listener
	compactions := newLateScheduler()
	o.Experimental.CompactionScheduler = compactions
	e.db, err = crdb.Open(e.dir, o)
	switch {
	case err == nil:
		compactions.open()
		return nil
	case crdb.IsCorruptionError(err):
		return damage(e.dir, "", err)
	case e.lock == nil:
		return store.Errorf(503, err, "The store in %s can't be opened; another engine may have it", e.dir)
	}
	return unwritable(e.dir, err)
}

// prepare brings the store to its schema.
func (e *Engine) prepare() error {
	err := e.checkCopy()
	if err == nil {
		err = e.opts.schema.migrate(e.dir, e.db)
	}
	// The flush of a new store begins a log, but no larger table in memory.
	e.memtable.size.Store(0)
	e.memtable.renewed(int64(e.opts.MemTableSize))
	if err == nil {
		e.lease, err = readLease(e.dir, e.db)
	}
	e.revision = e.lease
	return e.readError(err)
}

// Watch reports changes under a prefix until the watcher is stopped.
func (e *Engine) Watch(prefix []byte) *store.Watcher { return e.opts.Watchers.Watch(prefix) }

// Close makes everything durable and lets go of the directory. If the disk fails for
// longer than the engine waits for it, what is not durable by then is lost, and the error
// reports that.
func (e *Engine) Close() error {
	e.closeOnce.Do(func() {
		close(e.closing)
		e.closeErr = e.close()
		close(e.closed)
	})
	<-e.closed
	return e.closeErr
}

func (e *Engine) close() error {
	finished := make(chan struct{})
	var patience sync.WaitGroup
	patience.Go(func() { e.giveUp(finished) })

	e.applyLock <- struct{}{} // never released: no further batch is applied
	e.filling.Wait()
	e.flush()
	e.queue.stop()
	e.writing.Wait()
	e.settleLast()
	close(e.stopMonitor)
	e.monitoring.Wait()

	e.life.Lock()
	e.dead = true
	e.handles.closeAll()
	err := e.db.Close()
	e.life.Unlock()

	close(finished)
	patience.Wait()
	err = errors.Join(err, e.lock.release())
	switch {
	case e.disk.isFrozen():
		return e.health.err()
	case err != nil:
		return store.Errorf(500, err, "The store in %s could not be closed cleanly; nothing that was acknowledged is lost", e.dir)
	}
	return nil
}

// giveUp freezes a disk that fails for too long, so that Close comes to an end.
func (e *Engine) giveUp(finished chan struct{}) {
	for {
		c := e.health.now.Load()
		if c.err == nil {
			select {
			case <-finished:
				return
			case <-c.fails:
				continue
			}
		}
		select {
		case <-finished:
			return
		case <-time.After(e.opts.CloseTimeout):
			if c := e.health.now.Load(); c.err != nil && c.disk {
				e.disk.freeze(c.err)
				return
			}
		}
	}
}
