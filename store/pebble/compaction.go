package pebble

import (
	"sync/atomic"

	crdb "github.com/cockroachdb/pebble/v2"
)

// A lateScheduler lets no compaction begin while Pebble is being opened, since Open would wait for
// its end: 130 ms for a store with 100,000 jobs, and more for a larger one.
//
// Below it is the only scheduler that Pebble exports. What that one lacks, looking for compactions
// by the clock, is for limits that change, and ours is 1.
type lateScheduler struct {
	crdb.CompactionScheduler
	db     crdb.DBForCompaction
	opened atomic.Bool
}

func newLateScheduler() *lateScheduler {
	return &lateScheduler{CompactionScheduler: crdb.NewConcurrencyLimitSchedulerWithNoPeriodicGrantingForTest()}
}

// Register implements [crdb.CompactionScheduler].
func (s *lateScheduler) Register(goroutines int, db crdb.DBForCompaction) {
	s.db = db
	s.CompactionScheduler.Register(goroutines, db)
}

// TrySchedule implements [crdb.CompactionScheduler].
func (s *lateScheduler) TrySchedule() (bool, crdb.CompactionGrantHandle) {
	if !s.opened.Load() {
		return false, nil
	}
	return s.CompactionScheduler.TrySchedule()
}

// open lets compactions begin, and begins one if it waits.
func (s *lateScheduler) open() {
	s.opened.Store(true)
	if waits, _ := s.db.GetWaitingCompaction(); !waits {
		return
	}
	if granted, handle := s.TrySchedule(); granted && !s.db.Schedule(handle) {
		handle.Done()
	}
}
