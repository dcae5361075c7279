package cluster

import (
	"sync/atomic"
	"time"

	"kernos/store"
)

// Parts of a lease.
const (
	renewals = 4  // per lease
	retries  = 32 // of a renewal that failed, per lease, plus the time that each takes
	reads    = 8  // of the record by a candidate, per lease
	margins  = 10 // the owner counts this part of the lease as over
	turns    = 10 // candidates try one after the other, this part of the lease apart
	graces   = 2  // that an owner has to renew after an outage of the servers: longer than a renewal that fails, and its repetition
	founding = 2  // an empty node waits this part of a lease for one that has a state, before it begins a new cluster
	signs    = 2  // of life that a node gives, per lease
)

// missed is how many signs of life a node may omit before it counts as away.
const missed = 3

// errLapsed is the answer while the owner can't renew its lease.
var errLapsed = &store.Error{Code: 503, Text: "This node can't confirm with the cluster's servers that it still owns this kernel; try again"}

// A clock is the time since some moment. Nothing sets it, and it runs while the process is stopped, and while the machine
// sleeps if the system can tell.
type clock func() time.Duration

// A lease is the right of one epoch's owner to answer. Once it was ended, it stays so.
type lease struct {
	now   clock
	until atomic.Int64 // in the clock's nanoseconds
}

// ended is the end of a lease that nothing extends.
const ended = -1

// Holds implements [replicated.Lease]. It is called for each answer.
func (l *lease) Holds() error {
	if int64(l.now()) < l.until.Load() {
		return nil
	}
	return errLapsed
}

// extend makes the lease hold until a moment, if it doesn't hold longer already and wasn't ended.
func (l *lease) extend(until time.Duration) {
	for {
		old := l.until.Load()
		if old == ended || int64(until) <= old || l.until.CompareAndSwap(old, int64(until)) {
			return
		}
	}
}

// end ends the lease for good.
func (l *lease) end() { l.until.Store(ended) }
