package transport

import (
	"context"
	"encoding/json"
	"math"
	"strconv"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"kernos/message"
)

// Throttled is the event for a peer that sends more than it may. The messages wait,
// and none of them is lost.
const Throttled message.Type = "Syscall.Throttled"

const (
	throttledFor   = time.Second // how long a peer exceeds the rate before the first event
	throttledAgain = time.Minute // pause between two such events
	throttledPause = time.Second // a peer whose messages did not wait for so long keeps to the rate again

	batchesPerSecond = 50 // how often messages of a peer that exceeds the rate are taken
)

// A Pacer holds a peer to a number of messages per second. Messages that had to wait are
// taken in batches: waking up for each of them would slow down other connections. A nil Pacer
// lets every message pass.
type Pacer struct {
	ctx     context.Context
	rate    float64
	bucket  *rate.Limiter
	batch   int
	waiting atomic.Bool // a message waits

	// Only the reading goroutine uses these.
	left    int       // messages left in the batch
	since   time.Time // when a message first had to wait; zero if the peer keeps to the rate
	last    time.Time // when a message last had to wait
	noticed time.Time // when the peer last got a notice
}

// newPacer returns a pacer for a number of messages per second, after as many as a second
// allows at once. No message waits after ctx has ended.
func newPacer(ctx context.Context, perSecond float64) *Pacer {
	burst := int(min(max(1, math.Ceil(perSecond)), math.MaxInt32))
	return &Pacer{
		ctx:    ctx,
		rate:   perSecond,
		bucket: rate.NewLimiter(rate.Limit(perSecond), burst),
		batch:  max(1, burst/batchesPerSecond),
	}
}

// Wait waits until a message that has come may be taken. Wait and Notice are called by one
// goroutine at a time.
func (p *Pacer) Wait() {
	switch {
	case p == nil:
		return
	case p.left > 0:
		p.left--
		return
	case p.bucket.Allow():
		if !p.since.IsZero() && time.Since(p.last) > throttledPause {
			p.since = time.Time{}
		}
		return
	}
	if p.since.IsZero() {
		p.since = time.Now()
	}
	p.waiting.Store(true)
	if p.bucket.WaitN(p.ctx, p.batch) == nil {
		p.left = p.batch - 1
	}
	p.waiting.Store(false)
	p.last = time.Now()
}

// Notice returns the event for a peer that has exceeded the rate for some time; nil if the
// peer has not.
func (p *Pacer) Notice() *message.Message {
	if p == nil || p.since.IsZero() {
		return nil
	}
	now := time.Now()
	if now.Sub(p.since) < throttledFor || !p.noticed.IsZero() && now.Sub(p.noticed) < throttledAgain {
		return nil
	}
	p.noticed = now
	limit := strconv.FormatFloat(p.rate, 'f', -1, 64)
	data, _ := json.Marshal(struct { // never fails
		Code    int     `json:"code"`
		Limit   float64 `json:"limit"`
		Message string  `json:"message"`
	}{429, p.rate, "This connection sends more than " + limit +
		" messages per second, which is its limit (frame-rate); they are taken at that rate, and none is lost. Send more slowly, or use several connections"})
	return &message.Message{Kind: message.KindEvent, Type: Throttled, Data: data}
}

// Waits reports whether a message waits at the moment. Any goroutine may call it.
func (p *Pacer) Waits() bool { return p != nil && p.waiting.Load() }
