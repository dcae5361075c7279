package transport

import (
	"context"
	"math"
	"strconv"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"kernos/internal/jsonscan"
	"kernos/message"
)

// Throttled is the event that tells a peer that it sends more than it may. It is no error:
// what it sends waits, and none of it is lost.
const Throttled message.Type = "Syscall.Throttled"

const (
	throttledFor   = time.Second // how long a peer sends too much before it is told
	throttledAgain = time.Minute // when it is told again
	throttledPause = time.Second // if nothing had to wait for so long, it sends too much no more

	gulpsPerSecond = 50 // how often those of a peer that sends too much are taken, some at a time
)

// Pacer holds a peer to so many messages a second. Messages that had to wait are taken some
// at a time: whoever wakes for each of them takes from the others what it should not have.
type Pacer struct {
	rate   float64
	bucket *rate.Limiter
	gulp   int
	holds  atomic.Bool // a message waits

	// What the reader knows.
	left  int       // of a gulp
	since time.Time // when something first had to wait; zero if the peer does not send too much
	last  time.Time // when something last had to
	told  time.Time
}

// NewPacer returns one for so many messages a second, after as many as a second allows at once.
func NewPacer(perSecond float64) *Pacer {
	burst := int(min(max(1, math.Ceil(perSecond)), math.MaxInt32))
	return &Pacer{
		rate:   perSecond,
		bucket: rate.NewLimiter(rate.Limit(perSecond), burst),
		gulp:   max(1, burst/gulpsPerSecond),
	}
}

// Wait waits until a message that has come may be taken, or ctx is done. If it has to wait, it
// calls before first, which may be nil. One goroutine may call Wait and Notice.
func (p *Pacer) Wait(ctx context.Context, before func()) {
	if p.left > 0 {
		p.left--
		return
	}
	if p.bucket.Allow() {
		if !p.since.IsZero() && time.Since(p.last) > throttledPause {
			p.since = time.Time{}
		}
		return
	}
	if p.since.IsZero() {
		p.since = time.Now()
	}
	if before != nil {
		before()
	}
	p.holds.Store(true)
	if p.bucket.WaitN(ctx, p.gulp) == nil {
		p.left = p.gulp - 1
	}
	p.holds.Store(false)
	p.last = time.Now()
}

// Notice returns what the peer is to be told, if it has sent too much for some time.
func (p *Pacer) Notice() *message.Message {
	if p.since.IsZero() {
		return nil
	}
	now := time.Now()
	if now.Sub(p.since) < throttledFor || !p.told.IsZero() && now.Sub(p.told) < throttledAgain {
		return nil
	}
	p.told = now
	limit := strconv.FormatFloat(p.rate, 'f', -1, 64)
	data := append([]byte(`{"code":429,"limit":`), limit...)
	data = jsonscan.AppendQuoted(append(data, `,"message":`...), "This connection sends more than "+limit+
		" messages a second, which is its limit (frame-rate); they are taken at that rate, and none is lost. Send more slowly, or use several connections")
	return &message.Message{Kind: message.KindEvent, Type: Throttled, Data: append(data, '}')}
}

// Holds reports whether a message waits at the moment. Anybody may call it.
func (p *Pacer) Holds() bool { return p.holds.Load() }
