package ndjson

import (
	"io"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// highWater is how many bytes wait at most before the one who adds to them has
	// to write them out.
	highWater = 64 << 10

	// maxDelay is how long a line waits at most for others to be written with.
	maxDelay = 2 * time.Millisecond
)

// A Writer collects lines and writes them together: when it is told to, when
// enough of them wait, or when the first has waited for 2 ms. It is safe for
// concurrent use. A peer that does not read makes those wait who write; what waits
// in memory is bounded by highWater and one line for each of them.
type Writer struct {
	failed atomic.Bool // err is set

	mu    sync.Mutex // guards what follows
	buf   []byte
	home  *[]byte // where buf came from; nil if there is none
	err   error
	armed bool // the timer runs
	timer *time.Timer

	writing sync.Mutex // held while writing; taken before mu
	dst     io.Writer
	more    atomic.Bool // whoever writes has to look again
}

// spare holds buffers in which nothing waits, of all writers: most connections have
// nothing to say most of the time.
var spare = sync.Pool{New: func() any { return new([]byte) }}

// NewWriter returns a Writer to dst.
func NewWriter(dst io.Writer) *Writer {
	return &Writer{dst: dst}
}

// Begin locks the writer and returns the buffer to append lines to, newlines
// included. End must follow.
func (w *Writer) Begin() []byte {
	w.mu.Lock()
	if w.home == nil {
		w.home = spare.Get().(*[]byte)
		w.buf = *w.home
	}
	return w.buf
}

// End takes the buffer back. It writes if enough waits.
func (w *Writer) End(buf []byte) {
	if w.err != nil {
		buf = buf[:0]
	}
	w.buf = buf
	if len(buf) > 0 && !w.armed {
		w.armed = true
		if w.timer == nil {
			w.timer = time.AfterFunc(maxDelay, w.late)
		} else {
			w.timer.Reset(maxDelay)
		}
	}
	full := len(buf) >= highWater
	w.mu.Unlock()
	if full {
		_ = w.Flush()
	}
}

// late is the timer's. The timer counts as running until what waits is on its way,
// so that no more than one of these waits for a destination that does not read.
func (w *Writer) late() { _ = w.Flush() }

// Flush writes what waits and returns once it is written, by this call or by another
// one that is under way. The error, if any, is the first one that the destination
// returned; nothing is written after it.
func (w *Writer) Flush() error {
	w.writing.Lock()
	err := w.write()
	w.writing.Unlock()
	if w.more.Load() {
		w.TryFlush()
	}
	return err
}

// TryFlush is Flush for somebody who must not wait for another one's write: what waits is
// then written behind that.
func (w *Writer) TryFlush() {
	w.more.Store(true)
	for w.more.Load() && w.writing.TryLock() {
		w.more.Store(false)
		_ = w.write()
		w.writing.Unlock()
	}
}

// FlushAside is TryFlush for somebody who must not wait for the destination either.
func (w *Writer) FlushAside() {
	w.mu.Lock()
	waits := len(w.buf) > 0
	w.mu.Unlock()
	if waits {
		go w.TryFlush()
	}
}

// write writes what waits. It is called with writing held.
func (w *Writer) write() error {
	w.mu.Lock()
	if w.armed {
		w.armed = false
		w.timer.Stop()
	}
	out, home, err := w.buf, w.home, w.err
	w.buf, w.home = nil, nil
	w.mu.Unlock()
	if home == nil {
		return err
	}
	if err == nil && len(out) > 0 {
		_, err = w.dst.Write(out)
		if err != nil {
			w.fail(err)
		}
	}
	if cap(out) <= 4*highWater { // otherwise a line of the older dialect was in it
		*home = out[:0]
		spare.Put(home)
	}
	return err
}

// fail makes writing end.
func (w *Writer) fail(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.err = err
	w.failed.Store(true)
	w.buf = w.buf[:0]
}

// Close writes what waits. It does not close the destination.
func (w *Writer) Close() error {
	err := w.Flush()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.timer != nil {
		w.timer.Stop()
	}
	return err
}

// Err returns the error that ended writing, or nil.
func (w *Writer) Err() error {
	if !w.failed.Load() {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}
