package http

import (
	"os"
	"sync"
	"time"
)

// watched is what was read from files. It is read again when they have changed, as those see
// who look at it: nothing runs behind their backs.
type watched[T any] struct {
	files []string
	read  func() (T, error)

	mu     sync.Mutex
	looked time.Time // when the files were last looked at
	seen   []mark
	last   T
	err    error
}

// A mark tells one version of a file from another.
type mark struct {
	info    os.FileInfo // nil if there is no file
	changed time.Time
	size    int64
}

// lookAgain is how long what was read is taken for what is there.
const lookAgain = time.Second

// watch returns what is read from files, first when it is first asked for.
func watch[T any](files []string, read func() (T, error)) *watched[T] {
	return &watched[T]{files: files, read: read}
}

// value returns what is in the files, or why it can't be read.
func (w *watched[T]) value() (T, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	if !w.looked.IsZero() && now.Sub(w.looked) < lookAgain {
		return w.last, w.err
	}
	w.looked = now
	var seen []mark
	for _, name := range w.files {
		var m mark
		if info, err := os.Stat(name); err == nil {
			m = mark{info, info.ModTime(), info.Size()}
		}
		seen = append(seen, m)
	}
	// One that could not be read is tried again.
	if w.seen == nil || w.err != nil || !sameMarks(w.seen, seen) {
		w.last, w.err = w.read()
		w.seen = seen
	}
	return w.last, w.err
}

func sameMarks(a, b []mark) bool {
	for i := range a {
		if (a[i].info == nil) != (b[i].info == nil) || !a[i].changed.Equal(b[i].changed) || a[i].size != b[i].size ||
			a[i].info != nil && !os.SameFile(a[i].info, b[i].info) {
			return false
		}
	}
	return true
}
