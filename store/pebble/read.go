package pebble

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"iter"
	"sync"

	crdb "github.com/cockroachdb/pebble/v2"

	"kernos/store"
)

// A source is what Pebble reads from: its latest state or a snapshot.
type source interface {
	Get(key []byte) ([]byte, io.Closer, error)
	NewIter(*crdb.IterOptions) (*crdb.Iterator, error)
}

// foreign reports whether a key can't be an entry's.
func foreign(key []byte) bool { return len(key) == 0 || key[0] == 0 }

func split(stored []byte) (store.Revision, []byte, error) {
	r, n := binary.Uvarint(stored)
	if n <= 0 || r == 0 {
		return 0, nil, fmt.Errorf("%w: a value without a revision", errUnreadable)
	}
	return store.Revision(r), stored[n:], nil
}

// readError gives an error of Pebble a code.
func (e *Engine) readError(err error) error {
	if err == nil {
		return nil
	}
	if known, ok := errors.AsType[*store.Error](err); ok {
		return known
	}
	if crdb.IsCorruptionError(err) || errors.Is(err, errUnreadable) {
		return damage(e.dir, "", err)
	}
	return store.Errorf(503, err, "The store in %s can't be read: look after the disk", e.dir)
}

// errUnreadable marks values that this engine has not written.
var errUnreadable = errors.New("unreadable")

// Get returns the entry of a key.
func (e *Engine) Get(key []byte) (store.Entry, error) {
	e.life.RLock()
	defer e.life.RUnlock()
	if e.dead {
		return store.Entry{}, store.ErrClosed
	}
	return e.latest(key)
}

// latest returns the latest entry of a key. Pebble must not be closed meanwhile.
func (e *Engine) latest(key []byte) (store.Entry, error) {
	if e.absence.sure(key) {
		return store.Entry{Key: key}, nil
	}
	cached, miss := e.cache.get(key)
	if cached != nil {
		return store.Entry{Key: key, Value: cached.Value, Revision: cached.Revision}, nil
	}
	if miss.pending {
		e.flush()
	}
	entry, err := e.get(e.db, key)
	if err == nil {
		e.cache.put(entry, miss)
		if entry.Revision == 0 {
			e.absence.miss(key)
		}
	}
	return entry, err
}

func (e *Engine) get(from source, key []byte) (store.Entry, error) {
	if foreign(key) {
		return store.Entry{Key: key}, nil
	}
	stored, closer, err := from.Get(key)
	if err != nil {
		if errors.Is(err, crdb.ErrNotFound) {
			return store.Entry{Key: key}, nil
		}
		return store.Entry{}, e.readError(err)
	}
	entry := store.Entry{Key: key}
	entry.Revision, entry.Value, err = split(stored)
	entry.Value = bytes.Clone(entry.Value)
	if closed := closer.Close(); err == nil {
		err = closed
	}
	return entry, e.readError(err)
}

// copyEntry makes an entry in a buffer.
func copyEntry(buf, key, stored []byte) (store.Entry, error) {
	r, value, err := split(stored)
	if err != nil {
		return store.Entry{}, err
	}
	buf = append(append(buf, key...), value...)
	return store.Entry{Key: buf[:len(key):len(key)], Value: buf[len(key):], Revision: r}, nil
}

// Scan goes through the entries of a range.
func (e *Engine) Scan(r store.Range) iter.Seq2[store.Entry, error] {
	return e.scan(r, (*cursor).step, func(use func(source) error) error {
		if e.dead {
			return store.ErrClosed
		}
		e.flush()
		return use(e.db)
	})
}

// scan goes through the entries that next returns, which counts its calls. The source can't
// be closed while it is used.
func (e *Engine) scan(r store.Range, next func(c *cursor, n int) (store.Entry, bool, error), from func(use func(source) error) error) iter.Seq2[store.Entry, error] {
	return func(yield func(store.Entry, error) bool) {
		c, err := e.newCursor(r, from)
		if err != nil {
			yield(store.Entry{}, err)
			return
		}
		defer e.handles.remove(c)
		for n := 0; ; n++ {
			entry, ok, err := next(c, n)
			if err != nil {
				yield(store.Entry{}, e.readError(err))
				return
			}
			if !ok || !yield(entry, nil) {
				return
			}
		}
	}
}

func (e *Engine) newCursor(r store.Range, from func(use func(source) error) error) (*cursor, error) {
	e.life.RLock()
	defer e.life.RUnlock()
	c := &cursor{reverse: r.Reverse}
	o := crdb.IterOptions{LowerBound: r.From, UpperBound: r.To}
	if foreign(r.From) {
		o.LowerBound = []byte{1} // the engine's own keys come before this
	}
	err := from(func(s source) (err error) {
		if r.To != nil && bytes.Compare(o.LowerBound, r.To) >= 0 {
			c.none = true
			return nil
		}
		c.it, err = s.NewIter(&o)
		return err
	})
	if err != nil {
		return nil, e.readError(err)
	}
	e.handles.add(c)
	return c, nil
}

// A cursor is the place of a scan. What it returns is copied, so that it can be closed
// while a caller uses an entry.
type cursor struct {
	reverse bool
	none    bool // the range is empty

	mu  sync.Mutex
	it  *crdb.Iterator // nil when it is closed
	buf []byte
}

// step goes to the next entry, or if it is step 0 to the first one.
func (c *cursor) step(n int) (store.Entry, bool, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.none {
		return store.Entry{}, false, nil
	}
	if c.it == nil {
		return store.Entry{}, false, store.ErrClosed
	}
	if !c.move(n == 0) {
		return store.Entry{}, false, c.it.Error()
	}
	entry, err := c.entry()
	return entry, err == nil, err
}

// seek goes to a key. An entry that is absent has revision 0.
func (c *cursor) seek(key []byte) (store.Entry, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.none:
		return store.Entry{Key: key}, nil
	case c.it == nil:
		return store.Entry{}, store.ErrClosed
	case !c.it.SeekGE(key) || !bytes.Equal(c.it.Key(), key):
		return store.Entry{Key: key}, c.it.Error()
	}
	return c.entry()
}

// entry copies the entry that the cursor is at.
func (c *cursor) entry() (store.Entry, error) {
	stored, err := c.it.ValueAndErr()
	if err != nil {
		return store.Entry{}, err
	}
	if n := len(c.it.Key()) + len(stored); cap(c.buf) < n {
		c.buf = make([]byte, 0, max(256, n+n/2))
	}
	return copyEntry(c.buf[:0], c.it.Key(), stored)
}

func (c *cursor) move(first bool) bool {
	switch {
	case first && c.reverse:
		return c.it.Last()
	case first:
		return c.it.First()
	case c.reverse:
		return c.it.Prev()
	}
	return c.it.Next()
}

func (c *cursor) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.it != nil {
		_ = c.it.Close() // the steps have returned the iterator's errors
		c.it = nil
	}
}

// Snapshot returns the latest state.
func (e *Engine) Snapshot() (store.Snapshot, error) {
	e.life.RLock()
	defer e.life.RUnlock()
	if e.dead {
		return nil, store.ErrClosed
	}
	e.flush()
	s := &snapshot{e: e, snap: e.db.NewSnapshot()}
	e.handles.add(s)
	return s, nil
}

// A snapshot is a state of the engine.
type snapshot struct {
	e *Engine

	mu   sync.RWMutex
	snap *crdb.Snapshot // nil when it is closed
}

func (s *snapshot) Get(key []byte) (store.Entry, error) {
	s.e.life.RLock()
	defer s.e.life.RUnlock()
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.snap == nil {
		return store.Entry{}, store.ErrClosed
	}
	return s.e.get(s.snap, key)
}

func (s *snapshot) Scan(r store.Range) iter.Seq2[store.Entry, error] {
	return s.e.scan(r, (*cursor).step, s.use)
}

// GetAll moves one iterator from key to key. A Get for each key would
// read the filters of every level, which are large and push pages out of the cache.
func (s *snapshot) GetAll(keys [][]byte) iter.Seq2[store.Entry, error] {
	if len(keys) == 0 {
		return func(func(store.Entry, error) bool) {}
	}
	all := store.Range{From: keys[0], To: append(bytes.Clone(keys[len(keys)-1]), 0)}
	return s.e.scan(all, func(c *cursor, n int) (store.Entry, bool, error) {
		if n == len(keys) {
			return store.Entry{}, false, nil
		}
		entry, err := c.seek(keys[n])
		return entry, true, err
	}, s.use)
}

// use lets a source be used that is not closed meanwhile.
func (s *snapshot) use(use func(source) error) error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.snap == nil {
		return store.ErrClosed
	}
	return use(s.snap)
}

func (s *snapshot) Close() error {
	s.e.life.RLock()
	defer s.e.life.RUnlock()
	s.e.handles.remove(s)
	return nil
}

func (s *snapshot) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.snap != nil {
		_ = s.snap.Close() // closing a snapshot can't fail
		s.snap = nil
	}
}

// A handle is open in Pebble and has to be closed before it.
type handle interface{ close() }

type handles struct {
	mu  sync.Mutex
	all map[handle]struct{}
}

func (h *handles) add(one handle) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.all == nil {
		h.all = make(map[handle]struct{})
	}
	h.all[one] = struct{}{}
}

func (h *handles) remove(one handle) {
	one.close()
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.all, one)
}

func (h *handles) closeAll() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for one := range h.all {
		one.close()
	}
	clear(h.all)
}
