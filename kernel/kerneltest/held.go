package kerneltest

import (
	"sync/atomic"

	"kernos/kernel"
	"kernos/store"
	"kernos/store/storetest"
)

// Held is a store in memory whose changes a test may hold back, as a cluster does while its servers have not accepted
// them: readers see a change, and its commit is pending. Its barrier is the fence of a kernel.
type Held struct {
	*storetest.Memory
	barriers atomic.Int64
	deposed  atomic.Bool
}

// NewHeld returns a store that holds nothing back until Manual is called.
func NewHeld() *Held { return &Held{Memory: storetest.NewMemory()} }

// Options returns the options of a kernel that has the store, and its barrier as the fence.
func (h *Held) Options() *kernel.Options { return &kernel.Options{Store: h, Fence: h.Barrier} }

// ErrDeposed is what everything fails with after [Held.Depose].
var ErrDeposed error = &store.Error{Code: 503, Text: "Another node owns this kernel now; try again"}

// Barrier implements [store.Store].
func (h *Held) Barrier() *store.Commit {
	commit := h.Memory.Barrier()
	if h.deposed.Load() {
		commit = store.NewCommit(0)
		commit.Resolve(ErrDeposed)
	}
	h.barriers.Add(1)
	return commit
}

// Barriers returns how often Barrier was called.
func (h *Held) Barriers() int { return int(h.barriers.Load()) }

// Depose makes all commits that are pending fail, and all barriers from now on.
func (h *Held) Depose() {
	h.deposed.Store(true)
	h.Fail(func(call string) error {
		if call == "commit" {
			return ErrDeposed
		}
		return nil
	})
	_ = h.Sync() // the error is ErrDeposed
}

// Restore ends what Depose has begun.
func (h *Held) Restore() {
	h.Fail(nil)
	h.deposed.Store(false)
	_ = h.Sync() // nothing fails
}
