package store

import (
	"errors"
	"iter"
	"sync"
	"sync/atomic"
)

// Lazy returns a store that is opened by the first call that needs it. While it can't be
// opened, every call reports why, and the next one tries again. A store that could be opened
// for reading only ([ErrReadOnly]) is opened again by an Apply.
func Lazy(open func() (Store, error)) Store { return &lazy{open: open} }

type lazy struct {
	open  func() (Store, error)
	ready atomic.Pointer[Store]

	mu     sync.Mutex
	closed bool
}

func (l *lazy) store() (Store, error) {
	if s := l.ready.Load(); s != nil {
		return *s, nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if s := l.ready.Load(); s != nil {
		return *s, nil
	}
	if l.closed {
		return nil, ErrClosed
	}
	s, err := l.open()
	if err != nil {
		return nil, err
	}
	l.ready.Store(&s)
	return s, nil
}

func (l *lazy) Get(key []byte) (Entry, error) {
	s, err := l.store()
	if err != nil {
		return Entry{}, err
	}
	return s.Get(key)
}

func (l *lazy) Scan(r Range) iter.Seq2[Entry, error] {
	s, err := l.store()
	if err != nil {
		return func(yield func(Entry, error) bool) { yield(Entry{}, err) }
	}
	return s.Scan(r)
}

func (l *lazy) Snapshot() (Snapshot, error) {
	s, err := l.store()
	if err != nil {
		return nil, err
	}
	return s.Snapshot()
}

func (l *lazy) Apply(b *Batch) (*Commit, error) {
	s, err := l.store()
	if err != nil {
		return nil, err
	}
	commit, err := s.Apply(b)
	if errors.Is(err, ErrReadOnly) && l.forget(s) {
		return l.Apply(b)
	}
	return commit, err
}

// forget closes a store so that the next call opens it again, and reports whether it will.
// Open scans fail.
func (l *lazy) forget(s Store) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now := l.ready.Load(); now != nil && *now == s && !l.closed {
		_ = s.Close() // no data can be lost: the store has written nothing
		l.ready.Store(nil)
	}
	return !l.closed
}

// Barrier of a store that was never needed is durable: nothing was applied.
func (l *lazy) Barrier() *Commit {
	if s := l.ready.Load(); s != nil {
		return (*s).Barrier()
	}
	return Committed(0)
}

// Watch of a store that can't be opened reports no changes.
func (l *lazy) Watch(prefix []byte) *Watcher {
	s, err := l.store()
	if err != nil {
		return new(Watchers).Watch(prefix)
	}
	return s.Watch(prefix)
}

func (l *lazy) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	if s := l.ready.Load(); s != nil {
		return (*s).Close()
	}
	return nil
}
