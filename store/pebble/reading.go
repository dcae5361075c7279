package pebble

import (
	"errors"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"golang.org/x/sys/unix"

	"kernos/store"
)

// OpenOrRead is Open, but a store that is there and can't be written, because the disk is
// full or read-only, is opened for reading: reads go on, and writing is refused with the
// error that Open had. It becomes an ordinary store when a caller wants to write and the
// disk lets them.
func OpenOrRead(dir string, options *Options) (store.Store, error) {
	e, err := Open(dir, options)
	if err == nil {
		return e, nil
	}
	if !unwritableNow(err) {
		return nil, err
	}
	r := &reading{dir: dir, options: options, cause: err, tried: time.Now()}
	if r.now, r.release, err = openReading(dir, options); err != nil {
		return nil, r.cause
	}
	return r, nil
}

// unwritableNow reports whether an error of Open is that of a disk which takes nothing.
func unwritableNow(err error) bool {
	for _, errno := range []error{syscall.ENOSPC, syscall.EDQUOT, syscall.EROFS, syscall.EACCES, syscall.EPERM} {
		if errors.Is(err, errno) {
			return true
		}
	}
	return false
}

// openReading opens a store without writing anything.
func openReading(dir string, options *Options) (*Engine, func(), error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, nil, err
	}
	if k, err := recognise(vfs.Default, dir); err != nil || k != ours {
		return nil, nil, errors.Join(err, errors.New("there is no store"))
	}
	release, err := holdReading(dir)
	if err != nil {
		return nil, nil, err
	}
	opts := options.defaults()
	db, err := openReadOnly(vfs.Default, dir, opts.forPebble(&logger{log: opts.Log}), false)
	if err != nil {
		release()
		return nil, nil, damage(dir, "", err)
	}
	e := &Engine{dir: dir, db: db, opts: opts, cache: newCache(), absence: newAbsence()}
	if err := e.checkSchema(); err != nil {
		release()
		return nil, nil, errors.Join(err, db.Close())
	}
	return e, release, nil
}

// holdReading takes the lock of a directory without writing to it.
func holdReading(dir string) (func(), error) {
	f, err := os.Open(filepath.Join(dir, lockName))
	if errors.Is(err, fs.ErrNotExist) {
		return func() {}, nil // and on this disk no process can make one
	}
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		err = inUse(dir, f)
		_ = f.Close()
		return nil, err
	}
	return func() { _ = f.Close() }, nil
}

// reading is a store on a disk that takes nothing, or did so a moment ago.
type reading struct {
	dir     string
	options *Options
	watched store.Watchers

	mu      sync.RWMutex // held to change what follows
	now     *Engine      // for reading; nil when it is closed
	release func()
	whole   store.Store // an ordinary one, once there is one
	cause   error       // why writing is refused
	tried   time.Time
	closed  bool
}

// again is how long a disk that took nothing is left alone.
const again = time.Second

func (r *reading) reader() (store.Store, error) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	switch {
	case r.closed:
		return nil, store.ErrClosed
	case r.whole != nil:
		return r.whole, nil
	case r.now == nil:
		return nil, r.cause
	}
	return r.now, nil
}

func (r *reading) Get(key []byte) (store.Entry, error) {
	s, err := r.reader()
	if err != nil {
		return store.Entry{}, err
	}
	return s.Get(key)
}

func (r *reading) Scan(keys store.Range) iter.Seq2[store.Entry, error] {
	s, err := r.reader()
	if err != nil {
		return func(yield func(store.Entry, error) bool) { yield(store.Entry{}, err) }
	}
	return s.Scan(keys)
}

func (r *reading) Snapshot() (store.Snapshot, error) {
	s, err := r.reader()
	if err != nil {
		return nil, err
	}
	return s.Snapshot()
}

// Apply tries to open the store again if it has not been tried for a while.
func (r *reading) Apply(b *store.Batch) (*store.Commit, error) {
	s, err := r.writer()
	if err != nil {
		return nil, err
	}
	commit, err := s.Apply(b)
	if err == nil {
		r.watched.Tell(b)
	}
	return commit, err
}

func (r *reading) writer() (store.Store, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.closed:
		return nil, store.ErrClosed
	case r.whole != nil:
		return r.whole, nil
	case time.Since(r.tried) < again:
		return nil, r.cause
	}
	r.tried = time.Now()
	r.closeReading() // open scans fail, and have to begin again
	e, err := Open(r.dir, r.options)
	if err == nil {
		r.whole = e
		return e, nil
	}
	r.cause = err
	if r.now, r.release, err = openReading(r.dir, r.options); err != nil {
		r.now, r.release = nil, nil
	}
	return nil, r.cause
}

func (r *reading) closeReading() {
	if r.now == nil {
		return
	}
	r.now.life.Lock()
	r.now.dead = true
	r.now.handles.closeAll()
	_ = r.now.db.Close() // it has written nothing
	r.now.life.Unlock()
	r.release()
	r.now, r.release = nil, nil
}

func (r *reading) Barrier() *store.Commit {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if r.whole != nil {
		return r.whole.Barrier()
	}
	return store.Committed(0)
}

func (r *reading) Watch(prefix []byte) *store.Watcher { return r.watched.Watch(prefix) }

func (r *reading) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil
	}
	r.closed = true
	r.closeReading()
	if r.whole != nil {
		return r.whole.Close()
	}
	return nil
}
