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
	prompt  PromptWriter // dst, if it is one
	rest    []byte       // what a prompt write has left; guarded by writing
	held    atomic.Int32 // those who add lines and must not wait
	more    atomic.Bool  // whoever writes has to look again
}

// A PromptWriter can write without waiting.
type PromptWriter interface {
	io.Writer

	// WritePromptly writes as much as the destination takes at this moment.
	WritePromptly(p []byte) (n int, err error)
}

// spare holds buffers in which nothing waits, of all writers: most connections have
// nothing to say most of the time.
var spare = sync.Pool{New: func() any { return new([]byte) }}

// NewWriter returns a Writer to dst.
func NewWriter(dst io.Writer) *Writer {
	w := &Writer{dst: dst}
	w.prompt, _ = dst.(PromptWriter)
	return w
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
func (w *Writer) End(buf []byte) { w.end(buf, false) }

// EndNow is End for somebody who flushes next: it sets no timer.
func (w *Writer) EndNow(buf []byte) { w.end(buf, true) }

func (w *Writer) end(buf []byte, flushed bool) {
	if w.err != nil {
		buf = buf[:0]
	}
	w.buf = buf
	held := w.held.Load() != 0 // somebody is going to push
	if len(buf) > 0 && !w.armed && !held && !flushed {
		w.armed = true
		if w.timer == nil {
			w.timer = time.AfterFunc(maxDelay, w.late)
		} else {
			w.timer.Reset(maxDelay)
		}
	}
	full := len(buf) >= highWater
	w.mu.Unlock()
	if full && !held {
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
		go w.TryFlush() // it is not for this caller to wait for
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

// FlushOnce is TryFlush for somebody who has something else to wait for: what others add
// meanwhile is written by somebody else.
func (w *Writer) FlushOnce() {
	w.more.Store(true)
	if !w.writing.TryLock() {
		return
	}
	w.more.Store(false)
	_ = w.write()
	w.writing.Unlock()
	if w.more.Load() {
		go w.TryFlush()
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

// Promptly calls add, which adds lines of some bytes, if that can be done without waiting
// for anything, and reports whether it has. A [Writer.Push] must follow: until then nobody
// else may write what waits.
func (w *Writer) Promptly(size int, add func()) bool {
	if !w.Room(size) {
		return false
	}
	w.held.Add(1)
	defer w.held.Add(-1)
	add()
	return true
}

// Room reports whether lines of some bytes can be added without waiting at this moment.
func (w *Writer) Room(size int) bool {
	if w.prompt == nil {
		return false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.buf)+size < highWater
}

// Held reports whether somebody is adding lines who must not wait, and pushes them then.
func (w *Writer) Held() bool { return w.held.Load() != 0 }

// Push writes what waits, as far as the destination takes it at this moment. The rest is
// written by somebody else.
func (w *Writer) Push() {
	w.more.Store(true)
	for w.more.Load() && w.writing.TryLock() {
		w.more.Store(false)
		left := w.push()
		w.writing.Unlock()
		if left {
			go w.TryFlush()
			return
		}
	}
}

// push is write for a Push. It reports whether something is left to write.
func (w *Writer) push() (left bool) {
	if len(w.rest) > 0 || w.prompt == nil {
		return true
	}
	out, home, err := w.take()
	if home == nil {
		return false
	}
	if err == nil && len(out) > 0 {
		var n int
		if n, err = w.prompt.WritePromptly(out); err != nil {
			w.fail(err)
		} else if n < len(out) {
			w.rest = append(w.rest, out[n:]...)
		}
	}
	giveBack(out, home)
	return len(w.rest) > 0
}

// take takes what waits. Without a home there is nothing.
func (w *Writer) take() (out []byte, home *[]byte, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.armed {
		w.armed = false
		w.timer.Stop()
	}
	out, home, err = w.buf, w.home, w.err
	w.buf, w.home = nil, nil
	return out, home, err
}

// giveBack lets others have a buffer.
func giveBack(out []byte, home *[]byte) {
	if cap(out) <= 4*highWater { // otherwise a line of the older dialect was in it
		*home = out[:0]
		spare.Put(home)
	}
}

// write writes what waits. It is called with writing held.
func (w *Writer) write() error {
	if len(w.rest) > 0 {
		rest := w.rest
		w.rest = nil
		if _, err := w.dst.Write(rest); err != nil {
			w.fail(err)
		}
	}
	out, home, err := w.take()
	if home == nil {
		return err
	}
	if err == nil && len(out) > 0 {
		_, err = w.dst.Write(out)
		if err != nil {
			w.fail(err)
		}
	}
	giveBack(out, home)
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
