package replicated

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"kernos/internal/backoff"
	"kernos/store"
	"kernos/store/pebble"
)

// maxEntry is how many bytes groups that wait have together when they become one entry. A message of NATS has a
// megabyte by default.
const maxEntry = 768 << 10

const (
	slowAfter   = 100 * time.Millisecond // after that, the lease of an owner that waits for the log is looked at
	slowAgain   = 50 * time.Millisecond
	settleAfter = time.Second // after that, an owner without work writes down that everything was accepted
)

var errUnknown = store.Errorf(503, nil,
	"The kernel was closed before the cluster's log has taken the change; "+
		"it may be part of the state later, or not. Try again")

// A publisher appends an owner's groups to the log. One entry is on its way at a time; groups that come meanwhile
// become the next one.
type publisher struct {
	log    Log
	epoch  uint64
	lease  Lease
	engine *pebble.Engine
	lost   chan struct{} // closed when the owner is deposed

	mu        sync.Mutex
	news      sync.Cond
	waiting   [][]byte // groups that are in no accepted entry; the first ones may be on their way
	first     uint64   // the number of the first of them
	bytes     int      // of all of them
	marks     []*mark  // in their order
	sequence  uint64   // of the last accepted entry
	err       error    // why nothing more is accepted
	stopped   bool     // no more groups come
	refused   error    // why the log takes nothing for now
	suspended bool     // the engine refuses batches
	settled   bool     // the engine has noted the last accepted group
	underway  bool     // an entry is on its way
	watch     *time.Timer
	watching  sync.WaitGroup
	unwatched bool

	looking sync.Mutex // held by look
	groups  [][]byte   // of the entry that is on its way
}

// A mark is an entry without groups.
type mark struct {
	after    uint64 // the number of the last group before it
	sequence uint64 // set when it was accepted
	done     chan struct{}
}

func newPublisher(log Log, lease Lease, at Position) *publisher {
	p := &publisher{
		log: log, epoch: at.Epoch, lease: lease, lost: make(chan struct{}),
		first: at.Accepted + 1, sequence: at.Sequence, settled: true,
	}
	p.news.L = &p.mu
	return p
}

// Publish implements [pebble.Publisher].
func (p *publisher) Publish(_ uint64, body []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.waiting = append(p.waiting, body)
	p.bytes += len(body)
	p.settled = false
	p.news.Broadcast()
}

// Wait implements [pebble.Publisher].
func (p *publisher) Wait(number uint64) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.first <= number && p.err == nil {
		p.news.Wait()
	}
	if p.first > number {
		return nil
	}
	return p.err
}

// Accepted implements [pebble.Publisher].
func (p *publisher) Accepted() (number, sequence uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.first - 1, p.sequence
}

// published returns the number of the last group.
func (p *publisher) published() uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.first - 1 + uint64(len(p.waiting))
}

// Pending implements [pebble.Publisher].
func (p *publisher) Pending() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.bytes
}

// Holds implements [pebble.Publisher].
func (p *publisher) Holds() error {
	select {
	case <-p.lost:
		return ErrDeposed
	default:
		return p.lease.Holds()
	}
}

// run appends what is published until ctx is done or the owner is deposed.
func (p *publisher) run(ctx context.Context) {
	for {
		e, m, more := p.next()
		if !more {
			return
		}
		sequence, err := p.append(ctx, e)
		switch {
		case err == nil:
			p.accept(e, m, sequence)
		case errors.Is(err, ErrDeposed):
			p.fail(ErrDeposed)
			return
		default:
			p.fail(errUnknown)
			return
		}
	}
}

// next waits for something to append.
func (p *publisher) next() (e Entry, m *mark, more bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.waiting) == 0 && len(p.marks) == 0 && !p.stopped && p.err == nil {
		p.news.Wait()
	}
	if p.err != nil || len(p.waiting) == 0 && len(p.marks) == 0 {
		return e, nil, false
	}
	e = Entry{Epoch: p.epoch, First: p.first}
	groups := uint64(len(p.waiting))
	if len(p.marks) > 0 {
		groups = min(groups, p.marks[0].after+1-p.first)
		if groups == 0 {
			m = p.marks[0]
		}
	}
	size, n := 0, 0
	for ; n < int(groups) && (n == 0 || size+len(p.waiting[n]) <= maxEntry); n++ {
		size += len(p.waiting[n])
	}
	p.groups = append(p.groups[:0], p.waiting[:n]...)
	e.Groups = p.groups
	p.underway = true
	p.watchAfter(slowAfter)
	return e, m, true
}

// append repeats what the log refuses for now.
func (p *publisher) append(ctx context.Context, e Entry) (uint64, error) {
	pauses := backoff.Backoff{First: 10 * time.Millisecond, Longest: time.Second, Jitter: true}
	for {
		sequence, err := p.log.Append(ctx, p.sequence, e)
		if err == nil || errors.Is(err, ErrDeposed) || ctx.Err() != nil {
			return sequence, err
		}
		p.mu.Lock()
		p.refused = refusal(err)
		p.mu.Unlock()
		if !pauses.Wait(ctx.Done()) {
			return 0, err
		}
	}
}

// refusal returns the error for callers while the log refuses entries.
func refusal(err error) error {
	if known, ok := errors.AsType[*store.Error](err); ok {
		return known
	}
	return store.Errorf(503, err, "The cluster's servers take no changes for now; try again")
}

// accept notes that the log has an entry.
func (p *publisher) accept(e Entry, m *mark, sequence uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := len(e.Groups)
	for i, body := range e.Groups {
		p.bytes -= len(body)
		e.Groups[i] = nil
	}
	p.waiting = slices.Delete(p.waiting, 0, n)
	p.first += uint64(n)
	p.sequence = sequence
	if m != nil {
		p.marks = p.marks[1:]
		m.sequence = sequence
		close(m.done)
	}
	p.underway, p.refused = false, nil
	if p.suspended {
		p.watchAfter(0)
	} else if len(p.waiting) == 0 {
		p.watchAfter(settleAfter)
	}
	p.news.Broadcast()
}

// fail ends publishing. Who is told that the owner is deposed finds the engine refusing batches.
func (p *publisher) fail(err error) {
	p.mu.Lock()
	p.err, p.underway = err, false
	for _, m := range p.marks {
		close(m.done)
	}
	p.marks = nil
	p.news.Broadcast()
	p.mu.Unlock()
	p.engine.Suspend(err)
	if errors.Is(err, ErrDeposed) {
		close(p.lost)
	}
}

// failure returns why nothing more is accepted.
func (p *publisher) failure() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err
}

// mark adds an entry without groups after a group.
func (p *publisher) mark(after uint64) *mark {
	m := &mark{after: after, done: make(chan struct{})}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err != nil {
		close(m.done)
		return m
	}
	p.marks = append(p.marks, m)
	p.news.Broadcast()
	return m
}

// stop ends run when everything is accepted.
func (p *publisher) stop() {
	p.mu.Lock()
	p.stopped = true
	p.news.Broadcast()
	p.mu.Unlock()
}

// unwatch ends the timer, and waits for what it has begun.
func (p *publisher) unwatch() {
	p.mu.Lock()
	p.unwatched = true
	if p.watch != nil && p.watch.Stop() {
		p.watching.Done()
	}
	p.mu.Unlock()
	p.watching.Wait()
}

// watchAfter calls look after a while. The caller holds mu.
func (p *publisher) watchAfter(while time.Duration) {
	switch {
	case p.unwatched:
		return
	case p.watch == nil:
		p.watching.Add(1)
		p.watch = time.AfterFunc(while, p.look)
	case !p.watch.Reset(while):
		p.watching.Add(1)
	}
}

// look is called by the timer: when an entry has been on its way for long, and when there has been no work for a
// while.
func (p *publisher) look() {
	defer p.watching.Done()
	p.looking.Lock()
	defer p.looking.Unlock()
	lost := p.lease.Holds()
	p.mu.Lock()
	if p.err != nil {
		p.mu.Unlock()
		return
	}
	why := p.refused
	if why == nil && (p.underway || p.suspended) {
		why = lost
	}
	change := (why != nil) != p.suspended
	p.suspended = why != nil
	if p.underway || p.suspended {
		p.watchAfter(slowAgain)
	}
	settle := !p.settled && !p.underway && len(p.waiting) == 0
	p.settled = p.settled || settle
	p.mu.Unlock()
	if change {
		p.suspend(why)
	}
	if settle {
		_ = p.engine.Settle() // the next group has the position with it
	}
}

// suspend passes on whether the engine takes batches, unless publishing has ended.
func (p *publisher) suspend(why error) {
	p.engine.Suspend(why)
	p.mu.Lock()
	err := p.err
	p.mu.Unlock()
	if err != nil { // it may have ended meanwhile
		p.engine.Suspend(err)
	}
}
