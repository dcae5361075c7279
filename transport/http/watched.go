package http

import (
	"sync"
	"time"
)

// watched is what was read from files. It is read again when it is asked for and older than
// lookAgain, so that a change takes effect without a restart.
type watched[T any] struct {
	read func() (T, error)

	mu     sync.Mutex
	looked time.Time // the time of the last read
	last   T         // the value of the last read that succeeded
	err    error
}

// lookAgain is how long the last content that was read is taken for the content of the files.
const lookAgain = time.Second

// value returns the last content of the files, and the error if they can't be read.
func (w *watched[T]) value() (T, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if now := time.Now(); w.looked.IsZero() || now.Sub(w.looked) >= lookAgain {
		w.looked = now
		var value T
		if value, w.err = w.read(); w.err == nil {
			w.last = value
		}
	}
	return w.last, w.err
}

// forget makes the next value be read.
func (w *watched[T]) forget() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.looked = time.Time{}
}
