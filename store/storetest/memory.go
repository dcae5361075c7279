package storetest

import (
	"bytes"
	"errors"
	"iter"
	"math/rand/v2"
	"slices"
	"sync"

	"kernos/store"
)

// Memory is a store without a disk: the model that engines are compared with, and a
// store for the tests of everything that uses one.
//
// What the contract leaves open it does in the way that is hardest on its user: the slices
// of a scan are overwritten at the next step, and after a crash revisions of lost
// batches are given again.
type Memory struct {
	watchers store.Watchers

	syncing sync.Mutex // held while commits are resolved, so that they are in order

	mu      sync.Mutex
	now     state   // the state that readers see
	durable state   // the state that a crash leaves
	pending []state // applied or waited for, and not durable; the oldest is first
	manual  bool
	closed  bool
	fail    func(call string) error
}

// A state of a Memory never changes.
type state struct {
	tree     *node
	revision store.Revision
	commit   *store.Commit // resolved when this state is durable
	barrier  bool          // the same state as the one before it
}

// NewMemory returns an empty store. Its commits are durable at once; see
// [Memory.Manual].
func NewMemory() *Memory { return new(Memory) }

// Manual keeps commits pending from now on until Sync or Close.
func (m *Memory) Manual() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.manual = true
}

// Fail makes calls fail from now on when f returns an error: "get", "scan" (asked at the
// start and before every entry), "snapshot", "apply" (nothing is changed) and "commit"
// (the batch is visible, and not known to be durable until a later commit succeeds). An
// error without a code gets 503. A nil f heals.
//
// f may be called from several goroutines, and must not call the store.
func (m *Memory) Fail(f func(call string) error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.fail = f
}

// Sync makes durable what was applied so far.
func (m *Memory) Sync() error {
	m.syncing.Lock()
	defer m.syncing.Unlock()
	m.mu.Lock()
	err := m.failing("commit")
	waiting := m.pending
	if len(waiting) > 0 && err == nil {
		m.durable = waiting[len(waiting)-1]
		m.pending = nil
	}
	waiting = slices.Clone(waiting)
	m.mu.Unlock()
	for _, s := range waiting {
		s.commit.Resolve(err) // commits that have failed before stay as they are
	}
	return err
}

// Pending returns how many applied batches are not durable.
func (m *Memory) Pending() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := 0
	for _, s := range m.pending {
		if !s.barrier {
			n++
		}
	}
	return n
}

// Crash ends the store as a power cut does and returns what is found afterwards: all
// that was durable, and the first keep of the batches that were pending. It may be
// called after Close, to open the store again.
func (m *Memory) Crash(keep int) *Memory {
	m.mu.Lock()
	left := m.durable
	lost := m.pending
	for _, s := range lost {
		if s.barrier {
			continue
		}
		if keep--; keep < 0 {
			break
		}
		left = s
	}
	m.closed, m.pending = true, nil
	next := &Memory{manual: m.manual}
	m.mu.Unlock()
	for _, s := range lost {
		s.commit.Resolve(store.Errorf(503, store.ErrClosed, "The store crashed"))
	}
	next.now = state{tree: left.tree, revision: left.revision}
	next.durable = next.now
	return next
}

// failing asks whether a call is to fail. The caller holds m.mu.
func (m *Memory) failing(call string) error {
	if m.fail == nil {
		return nil
	}
	err := m.fail(call)
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[*store.Error](err); ok {
		return err
	}
	return store.Errorf(503, err, "The store fails as it was told to")
}

// read returns the latest state for a call.
func (m *Memory) read(call string) (state, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return state{}, store.ErrClosed
	}
	return m.now, m.failing(call)
}

// Get implements [store.Reader].
func (m *Memory) Get(key []byte) (store.Entry, error) {
	s, err := m.read("get")
	if err != nil {
		return store.Entry{}, err
	}
	return s.get(key), nil
}

// Scan implements [store.Reader].
func (m *Memory) Scan(r store.Range) iter.Seq2[store.Entry, error] {
	return func(yield func(store.Entry, error) bool) {
		s, err := m.read("scan")
		if err != nil {
			yield(store.Entry{}, err)
			return
		}
		m.scan(s, r, yield)
	}
}

// scan goes through a state. It gives the same memory to the caller at each step.
func (m *Memory) scan(s state, r store.Range, yield func(store.Entry, error) bool) {
	var key, value []byte
	s.tree.walk(r, func(n *node) bool {
		overwrite(key)
		overwrite(value)
		if err := m.failStep(); err != nil {
			yield(store.Entry{}, err)
			return false
		}
		key, value = append(key[:0], n.key...), append(value[:0], n.value...)
		return yield(store.Entry{Key: key, Value: value, Revision: n.revision}, nil)
	})
	overwrite(key)
	overwrite(value)
}

func (m *Memory) failStep() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.failing("scan")
}

// Snapshot implements [store.Store].
func (m *Memory) Snapshot() (store.Snapshot, error) {
	s, err := m.read("snapshot")
	if err != nil {
		return nil, err
	}
	return &snapshot{m: m, state: s}, nil
}

// Apply implements [store.Store].
func (m *Memory) Apply(b *store.Batch) (*store.Commit, error) {
	commit, manual, err := m.apply(b)
	if err != nil {
		return nil, err
	}
	m.watchers.Notify(b)
	if !manual {
		_ = m.Sync() // the commit says it
	}
	return commit, nil
}

func (m *Memory) apply(b *store.Batch) (commit *store.Commit, manual bool, err error) {
	if err := b.Check(); err != nil {
		return nil, false, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil, false, store.ErrClosed
	}
	if err := m.failing("apply"); err != nil {
		return nil, false, err
	}
	for _, c := range b.Conditions {
		if m.now.get(c.Key).Revision != c.Revision {
			return nil, false, store.ErrConflict
		}
	}
	next := m.now
	next.barrier = b.Empty()
	if !next.barrier {
		next.revision++
	}
	next.change(b)
	next.commit = store.NewCommit(next.revision)
	m.now = next
	m.pending = append(m.pending, next)
	return next.commit, m.manual, nil
}

// Barrier implements [store.Store].
func (m *Memory) Barrier() *store.Commit {
	m.mu.Lock()
	s, manual := m.now, m.manual
	s.barrier, s.commit = true, store.NewCommit(s.revision)
	switch {
	case m.closed:
		s.commit.Resolve(store.ErrClosed)
	case len(m.pending) == 0:
		s.commit.Resolve(nil)
	default:
		m.pending = append(m.pending, s)
	}
	m.mu.Unlock()
	if decided, _ := s.commit.Resolved(); !decided && !manual {
		_ = m.Sync() // the commit says it
	}
	return s.commit
}

// Watch implements [store.Store].
func (m *Memory) Watch(prefix []byte) *store.Watcher { return m.watchers.Watch(prefix) }

// Close implements [store.Store].
func (m *Memory) Close() error {
	m.mu.Lock()
	if m.closed {
		m.mu.Unlock()
		return store.ErrClosed
	}
	m.closed = true
	m.mu.Unlock()
	return m.Sync()
}

// A snapshot of a Memory.
type snapshot struct {
	m      *Memory
	state  state
	mu     sync.Mutex
	closed bool
}

func (s *snapshot) read(call string) error {
	s.mu.Lock()
	closed := s.closed
	s.mu.Unlock()
	if closed {
		return store.ErrClosed
	}
	_, err := s.m.read(call)
	return err
}

func (s *snapshot) Get(key []byte) (store.Entry, error) {
	if err := s.read("get"); err != nil {
		return store.Entry{}, err
	}
	return s.state.get(key), nil
}

// GetAll implements [store.Snapshot].
func (s *snapshot) GetAll(keys [][]byte) iter.Seq2[store.Entry, error] {
	return func(yield func(store.Entry, error) bool) {
		for _, key := range keys {
			if e, err := s.Get(key); !yield(e, err) || err != nil {
				return
			}
		}
	}
}

func (s *snapshot) Scan(r store.Range) iter.Seq2[store.Entry, error] {
	return func(yield func(store.Entry, error) bool) {
		if err := s.read("scan"); err != nil {
			yield(store.Entry{}, err)
			return
		}
		s.m.scan(s.state, r, yield)
	}
}

func (s *snapshot) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	return nil
}

// change applies a batch, under the state's revision.
func (s *state) change(b *store.Batch) {
	for _, op := range b.Ops {
		from, to := op.Key, op.Value
		if op.Kind != store.OpDeleteRange {
			to = append(bytes.Clone(op.Key), 0)
		}
		low, rest := split(s.tree, from)
		_, high := split(rest, to)
		if op.Kind == store.OpSet {
			low = join(low, &node{
				key: bytes.Clone(op.Key), value: append([]byte{}, op.Value...),
				revision: s.revision, weight: rand.Uint64(),
			})
		}
		s.tree = join(low, high)
	}
}

func (s state) get(key []byte) store.Entry {
	for n := s.tree; n != nil; {
		switch order := bytes.Compare(key, n.key); {
		case order < 0:
			n = n.left
		case order > 0:
			n = n.right
		default:
			return store.Entry{Key: bytes.Clone(key), Value: append([]byte{}, n.value...), Revision: n.revision}
		}
	}
	return store.Entry{Key: bytes.Clone(key)}
}

func overwrite(b []byte) {
	for i := range b {
		b[i] = 0xDB
	}
}

// A node of a treap: ordered by key from left to right and by weight, which is random,
// from top to bottom. Nodes never change, so that every old tree stays whole.
type node struct {
	key, value  []byte
	revision    store.Revision
	weight      uint64
	left, right *node
}

// split returns what is before a key and what is from it on.
func split(n *node, key []byte) (low, high *node) {
	if n == nil {
		return nil, nil
	}
	top := *n
	if bytes.Compare(n.key, key) < 0 {
		top.right, high = split(n.right, key)
		return &top, high
	}
	low, top.left = split(n.left, key)
	return low, &top
}

// join is the opposite of split.
func join(low, high *node) *node {
	switch {
	case low == nil:
		return high
	case high == nil:
		return low
	case low.weight > high.weight:
		top := *low
		top.right = join(low.right, high)
		return &top
	}
	top := *high
	top.left = join(low, high.left)
	return &top
}

// walk visits the nodes of a range until visit returns false, and reports whether it
// never did.
func (n *node) walk(r store.Range, visit func(*node) bool) bool {
	if n == nil {
		return true
	}
	before := bytes.Compare(n.key, r.From) < 0 // a nil From is the least of all
	behind := r.To != nil && bytes.Compare(n.key, r.To) >= 0
	first, last := n.left, n.right
	skipFirst, skipLast := before, behind
	if r.Reverse {
		first, last = last, first
		skipFirst, skipLast = skipLast, skipFirst
	}
	return (skipFirst || first.walk(r, visit)) &&
		(before || behind || visit(n)) &&
		(skipLast || last.walk(r, visit))
}

// Count returns how many keys begin with a prefix.
func Count(r store.Reader, prefix []byte) (n int, err error) {
	for _, err := range r.Scan(store.Prefix(prefix)) {
		if err != nil {
			return 0, err
		}
		n++
	}
	return n, nil
}
