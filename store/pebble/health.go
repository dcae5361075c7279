package pebble

import (
	"sync"
	"sync/atomic"
)

// health is whether the disk takes what is written. The disk and the events of
// Pebble report to it; Apply and the monitor ask it.
type health struct {
	dir string
	now atomic.Pointer[condition]

	// changed gets a token when the condition has changed.
	changed chan struct{}

	mu        sync.Mutex // a leaf: nothing is called while it is held
	insisting int        // calls that are being repeated until they succeed
	insistErr error      // the error of the latest repeated call
	flushErr  error      // the error of the latest flush
	compactEr error      // the error of the latest compaction
	stalled   bool       // a batch waits for a flush or a compaction
	unflushed int        // full memtables that are not in a table yet
	suspended error      // why the publisher takes nothing
	final     error      // an error that ends writing for good
}

// A condition is a state of health. It never changes, it is replaced.
type condition struct {
	err   error         // why nothing can be written, or nil
	disk  bool          // the disk is why, and not the publisher
	fails chan struct{} // closed when nothing more can be written
}

// maxUnflushed is how many full memtables may wait while flushes fail. One more and
// Pebble would stall, so writers are refused before.
const maxUnflushed = 2

func newHealth(dir string) *health {
	h := &health{dir: dir, changed: make(chan struct{}, 1)}
	h.now.Store(&condition{fails: make(chan struct{})})
	return h
}

// err returns why nothing can be written, or nil.
func (h *health) err() error { return h.now.Load().err }

func (h *health) update(change func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	change()
	err := h.final
	if err == nil && h.insisting > 0 {
		err = h.insistErr
	}
	if err == nil && (h.stalled || h.unflushed >= maxUnflushed) {
		if err = h.flushErr; err == nil && h.stalled {
			err = h.compactEr
		}
	}
	disk := err != nil
	if err == nil {
		err = h.suspended
	}
	was := h.now.Load()
	switch {
	case err == nil && was.err == nil:
		return
	case err == nil:
		h.now.Store(&condition{fails: make(chan struct{})})
	case was.err == nil:
		h.now.Store(&condition{err: unwritable(h.dir, err), disk: disk, fails: was.fails})
		close(was.fails)
	default:
		h.now.Store(&condition{err: unwritable(h.dir, err), disk: disk, fails: was.fails})
	}
	select {
	case h.changed <- struct{}{}:
	default:
	}
}
