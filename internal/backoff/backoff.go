// Package backoff waits between attempts, twice as long each time.
package backoff

import (
	"math/rand/v2"
	"time"
)

// A Backoff is a series of pauses. The first takes First, and each next one twice as long
// as the one before it, up to Longest.
type Backoff struct {
	First, Longest time.Duration

	// Jitter varies a pause between half and one and a half of its length, so that clients
	// that failed together don't try again together.
	Jitter bool

	next time.Duration
}

// Pause returns the length of the next pause, without its jitter.
func (b *Backoff) Pause() time.Duration { return max(b.next, b.First) }

// Grow makes the next pause twice as long, for a caller that measures pauses itself.
func (b *Backoff) Grow() { b.next = min(2*b.Pause(), b.Longest) }

// Next returns the length of the next pause with its jitter, and makes the one after it twice as long.
func (b *Backoff) Next() time.Duration {
	pause := b.Pause()
	b.Grow()
	if b.Jitter {
		pause = pause/2 + rand.N(pause)
	}
	return pause
}

// Wait waits for the next pause. It returns false if done was closed first.
func (b *Backoff) Wait(done <-chan struct{}) bool {
	timer := time.NewTimer(b.Next())
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-done:
		return false
	}
}

// Reset begins again with the first pause, after an attempt that succeeded.
func (b *Backoff) Reset() { b.next = 0 }
