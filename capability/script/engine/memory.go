package engine

import (
	"sync/atomic"
)

// A linear is the memory of one instance. Instances of an engine share a budget.
type linear struct {
	budget *atomic.Int64 // bytes that are left
	max    uint64
	buffer []byte

	refused   bool // more was asked for than there is,
	exhausted bool // because of the budget
}

// Reallocate implements experimental.LinearMemory: nil means that the memory can't grow.
func (l *linear) Reallocate(size uint64) []byte {
	more := int64(size) - int64(len(l.buffer))
	if size > l.max {
		l.refused = true
		return nil
	}
	if l.budget.Add(-more) < 0 {
		l.budget.Add(more)
		l.refused, l.exhausted = true, true
		return nil
	}
	if size <= uint64(cap(l.buffer)) {
		l.buffer = l.buffer[:size]
		return l.buffer
	}
	room := size
	if l.buffer != nil {
		room = min(l.max, 2*size)
	}
	grown := make([]byte, size, room)
	copy(grown, l.buffer)
	l.buffer = grown
	return grown
}

// Free implements experimental.LinearMemory.
func (l *linear) Free() {
	l.budget.Add(int64(len(l.buffer)))
	l.buffer = nil
}
