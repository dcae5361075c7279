package pebble

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"golang.org/x/sys/unix"

	"kernos/store"
)

// OpenOrRead is Open, but an existing store that can't be written, because the disk is
// full or read-only, is opened for reading: reads continue, and writing is refused with the
// error that Open had. After a second it is refused with [store.ErrReadOnly]: the disk may
// take something again, and the store can be closed and opened anew.
func OpenOrRead(dir string, options *Options) (*Engine, error) {
	e, cause := Open(dir, options)
	if cause == nil || !unwritableNow(cause) {
		return e, cause
	}
	e, err := openReading(dir, options)
	if err != nil {
		return nil, cause
	}
	e.refuse(cause)
	return e, nil
}

// again is how long a disk that took nothing is left alone.
const again = time.Second

// refuse makes an engine that was opened for reading refuse batches.
func (e *Engine) refuse(cause error) {
	e.health.update(func() { e.health.final = cause })
	e.retryAt = time.Now().Add(again)
}

// refusal returns the error of Apply while nothing can be written.
func (e *Engine) refusal(cause error) error {
	if e.retryAt.IsZero() || time.Now().Before(e.retryAt) {
		return cause
	}
	why := unwritable(e.dir, cause)
	return &store.Error{Code: why.Code, Text: why.Text, Err: store.ErrReadOnly}
}

// unwritableNow reports whether an error of Open is that of a disk which takes nothing.
func unwritableNow(err error) bool { return full(err) || forbidden(err) }

// openReading opens a store without writing anything.
func openReading(dir string, options *Options) (*Engine, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	if k, err := recognise(vfs.Default, dir); err != nil || k != ours {
		return nil, errors.Join(err, errors.New("there is no store"))
	}
	l, err := holdReading(dir)
	if err != nil {
		return nil, err
	}
	e, err := openUnchanging(dir, options.defaults())
	if err != nil {
		return nil, errors.Join(err, l.release())
	}
	e.lock = l
	return e, nil
}

// openUnchanging opens a store that no process changes, without writing anything.
func openUnchanging(dir string, opts Options) (*Engine, error) {
	db, err := openReadOnly(&readOnly{FS: vfs.Default}, dir, opts.forPebble(&logger{log: opts.Log}))
	if err != nil {
		return nil, damage(dir, "", err)
	}
	e := newEngine(dir, opts, nil)
	e.db = db
	if err := e.checkSchema(); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return e, nil
}

// holdReading takes the lock of a directory without writing to it. The lock is nil where
// no process can make one.
func holdReading(dir string) (*lock, error) {
	f, err := os.Open(filepath.Join(dir, lockName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		err = inUse(dir, f)
		_ = f.Close()
		return nil, err
	}
	return &lock{file: f}, nil
}
