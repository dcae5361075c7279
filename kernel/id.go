package kernel

import (
	crand "crypto/rand"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/oklog/ulid/v2"

	"kernos/message"
)

// idSource makes ids that sort by the time at which they were made, also within a
// millisecond.
type idSource struct {
	mu      sync.Mutex
	entropy *ulid.MonotonicEntropy
	last    uint64
}

func newIDSource() *idSource {
	var seed [32]byte
	_, _ = crand.Read(seed[:]) // never fails
	return &idSource{entropy: ulid.Monotonic(rand.NewChaCha8(seed), 0)}
}

func (s *idSource) next(now time.Time) message.ID {
	s.mu.Lock()
	// A clock that is set back must not make ids that sort before older ones.
	s.last = max(s.last, ulid.Timestamp(now))
	id, err := ulid.New(s.last, s.entropy)
	if err != nil { // more ids in a millisecond than there are
		s.last++
		id = ulid.MustNew(s.last, s.entropy)
	}
	s.mu.Unlock()
	return message.ID(id.String())
}
