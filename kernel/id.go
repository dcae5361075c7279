package kernel

import (
	crand "crypto/rand"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/oklog/ulid/v2"
)

// IDs makes ids that sort by the time at which they were made, also within a millisecond. Its zero
// value is ready to use, and it is safe for concurrent use.
type IDs struct {
	mu      sync.Mutex
	entropy *ulid.MonotonicEntropy
	id      ulid.ULID // the last id
	time    uint64    // the time in the last id
}

// Next returns an id that is made now.
func (s *IDs) Next(now time.Time) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.entropy == nil {
		var seed [32]byte
		_, _ = crand.Read(seed[:]) // never fails
		// Within a millisecond ids count up by one: they need not be hard to guess.
		s.entropy = ulid.Monotonic(rand.NewChaCha8(seed), 1)
	}
	// A clock that is set back must not make ids that sort before older ones.
	s.time = max(s.time, ulid.Timestamp(now))
	for s.entropy.MonotonicRead(s.time, s.id[6:]) != nil {
		s.time++ // more ids in a millisecond than there are
	}
	_ = s.id.SetTime(s.time) // fails in the year 10889
	return s.id.String()
}
