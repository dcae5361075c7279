package engine

import (
	"context"
	"sync/atomic"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"

	"kernos/message"
)

// A linear is the memory of one instance. Instances of an engine share a budget.
type linear struct {
	budget *atomic.Int64 // bytes that are left
	max    uint64
	buffer []byte // the budget is charged for its capacity

	refused   bool // more was asked for than there is,
	exhausted bool // because of the budget
}

// Reallocate implements experimental.LinearMemory: nil means that the memory can't grow.
func (l *linear) Reallocate(size uint64) []byte {
	held := uint64(cap(l.buffer))
	if size > l.max {
		l.refused = true
		return nil
	}
	if size <= held {
		l.buffer = l.buffer[:size]
		return l.buffer
	}
	room := size
	if l.buffer != nil {
		room = min(l.max, 2*size) // memory that grows once usually grows again
	}
	if !l.charge(room - held) {
		if room = size; !l.charge(room - held) {
			l.refused, l.exhausted = true, true
			return nil
		}
	}
	grown := make([]byte, size, room)
	copy(grown, l.buffer)
	l.buffer = grown
	return grown
}

// charge takes bytes from the budget, or reports false if it hasn't as many.
func (l *linear) charge(n uint64) bool {
	if l.budget.Add(-int64(n)) < 0 {
		l.budget.Add(int64(n))
		return false
	}
	return true
}

// Free implements experimental.LinearMemory. A second call does nothing.
func (l *linear) Free() {
	l.budget.Add(int64(cap(l.buffer)))
	l.buffer = nil
}

// errNoMemory is the error of a call for which the budget has no memory to begin with.
var errNoMemory = message.Errorf(503, "There is no memory left to run a script: try again later")

// instantiate makes an instance of a module, whose memory is l. What the instance holds is given back if it
// can't be made. wazero panics if a memory can't have its initial size, and has nothing to undo by then.
func instantiate(ctx context.Context, r wazero.Runtime, m wazero.CompiledModule, config wazero.ModuleConfig, l *linear) (instance api.Module, err error) {
	defer func() {
		if instance != nil {
			return
		}
		small := l.buffer == nil && l.refused
		l.Free()
		if small && recover() != nil {
			err = errNoMemory
		}
	}()
	ctx = experimental.WithMemoryAllocator(ctx, experimental.MemoryAllocatorFunc(func(uint64, uint64) experimental.LinearMemory { return l }))
	return r.InstantiateModule(ctx, m, config)
}
