package cluster

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"kernos/store"
	"kernos/store/replicated"
	"kernos/store/replicated/jetstream"
)

// A fakeServer stands for all servers of a cluster: messages with conditions, subjects without, and a log, for synctest.
type fakeServer struct {
	mu       sync.Mutex
	random   *rand.Rand // nil: no faults
	sent     int
	late     time.Duration // what messages take in addition
	down     bool          // answers nothing
	sequence uint64
	last     map[string][]jetstream.Message // the newest two of each subject
	subs     map[string][]*fakeSub
	log      []replicated.Entry
	grown    chan struct{} // closed when the log grows
	leases   []namedLease  // all that ever were
}

type namedLease struct {
	node  string
	epoch uint64
	replicated.Lease
}

type fakeSub struct{ deliver func([]byte, func([]byte)) }

func newFakeServer() *fakeServer {
	return &fakeServer{last: make(map[string][]jetstream.Message), subs: make(map[string][]*fakeSub), grown: make(chan struct{})}
}

// chance reports true in one of n cases. The caller holds mu.
func (s *fakeServer) chance(n int) bool { return s.random != nil && s.random.IntN(n) == 0 }

// delay returns how long a message is on its way: often short, sometimes long. The caller holds mu.
func (s *fakeServer) delay() time.Duration {
	switch {
	case s.random == nil:
		s.sent++ // what is sent at the same time arrives in order
		return time.Millisecond + time.Duration(s.sent) + s.late
	case s.chance(20):
		return time.Duration(s.random.Int64N(int64(4 * time.Second)))
	}
	return time.Duration(s.random.Int64N(int64(30 * time.Millisecond)))
}

// A fakeLink is how one node reaches the server, and its clock. It is a node's messages and bus, and its copy's log.
type fakeLink struct {
	*fakeServer
	node   string
	rate   float64       // of the node's clock
	paused chan struct{} // closed when it runs again; nil if it runs
	cut    bool
}

func (s *fakeServer) link(node string) *fakeLink {
	return &fakeLink{fakeServer: s, node: node, rate: 1}
}

// clock returns a clock that runs faster or slower than others.
func (l *fakeLink) clock() clock {
	begin := time.Now()
	return func() time.Duration { return time.Duration(float64(time.Since(begin)) * l.rate) }
}

// set changes the state of the link.
func (l *fakeLink) set(f func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f()
}

func (l *fakeLink) pause() {
	l.set(func() {
		if l.paused == nil {
			l.paused = make(chan struct{})
		}
	})
}

func (l *fakeLink) resume() {
	l.set(func() {
		if l.paused != nil {
			close(l.paused)
			l.paused = nil
		}
	})
}

// runs waits until the node isn't paused.
func (l *fakeLink) runs() {
	l.mu.Lock()
	paused := l.paused
	l.mu.Unlock()
	if paused != nil {
		<-paused
	}
}

var errCut = errors.New("no server answers")

func (l *fakeLink) Last(ctx context.Context, subject string) (jetstream.Message, error) {
	return l.fetch(ctx, subject, false)
}

func (l *fakeLink) Confirm(ctx context.Context, subject string) (jetstream.Message, error) {
	return l.fetch(ctx, subject, true)
}

func (l *fakeLink) fetch(ctx context.Context, subject string, sure bool) (jetstream.Message, error) {
	l.runs()
	defer l.runs()
	l.mu.Lock()
	lost, there, back := l.cut || l.down, l.delay(), l.delay()
	l.mu.Unlock()
	if lost || !sleep(ctx, there) {
		<-ctx.Done()
		return jetstream.Message{}, errCut
	}
	l.mu.Lock()
	all := l.last[subject]
	var m jetstream.Message
	if len(all) > 0 {
		m = all[len(all)-1]
		if !sure && len(all) > 1 && l.chance(10) {
			m = all[len(all)-2]
		}
	}
	l.mu.Unlock()
	if !sleep(ctx, back) {
		return jetstream.Message{}, errCut
	}
	return m, nil
}

func (l *fakeLink) Publish(ctx context.Context, m *nats.Msg, after uint64) (uint64, error) {
	l.runs()
	defer l.runs()
	type outcome struct {
		sequence uint64
		err      error
	}
	done := make(chan outcome, 1)
	l.mu.Lock()
	lost, there, back, unheard := l.cut || l.down, l.delay(), l.delay(), l.chance(15)
	l.mu.Unlock()
	if !lost {
		time.AfterFunc(there, func() { // arrives whether or not the node still waits
			sequence, err := l.put(m, after)
			time.AfterFunc(back, func() {
				if !unheard {
					done <- outcome{sequence, err}
				}
			})
		})
	}
	select {
	case o := <-done:
		return o.sequence, o.err
	case <-ctx.Done():
		return 0, fmt.Errorf("%w: %w", jetstream.ErrUnknown, ctx.Err())
	}
}

func (s *fakeServer) put(m *nats.Msg, after uint64) (uint64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := s.last[m.Subject]
	now := uint64(0)
	if len(all) > 0 {
		now = all[len(all)-1].Sequence
	}
	if now != after {
		return 0, &jetstream.Conflict{Sequence: now}
	}
	s.sequence++
	all = append(all, jetstream.Message{Subject: m.Subject, Sequence: s.sequence, Data: slices.Clone(m.Data)})
	s.last[m.Subject] = all[max(0, len(all)-2):]
	return s.sequence, nil
}

func (l *fakeLink) publish(subject string, data []byte) error {
	return l.send(subject, data, func([]byte) {})
}

// send delivers a message to all that have subscribed.
func (l *fakeLink) send(subject string, data []byte, reply func([]byte)) error {
	l.runs()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cut || l.down {
		return nil
	}
	if len(l.subs[subject]) == 0 {
		return nats.ErrNoResponders
	}
	for _, sub := range l.subs[subject] {
		if !l.chance(20) {
			time.AfterFunc(l.delay(), func() { sub.deliver(slices.Clone(data), reply) })
		}
	}
	return nil
}

func (l *fakeLink) subscribe(subject string, f func([]byte, func([]byte))) (func(), error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	sub := &fakeSub{}
	sub.deliver = func(data []byte, reply func([]byte)) {
		l.mu.Lock()
		cut := l.cut
		l.mu.Unlock()
		if cut {
			return
		}
		l.runs()
		f(data, reply)
	}
	l.subs[subject] = append(l.subs[subject], sub)
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.subs[subject] = slices.DeleteFunc(l.subs[subject], func(s *fakeSub) bool { return s == sub })
	}, nil
}

func (l *fakeLink) request(ctx context.Context, subject string, data []byte) ([]byte, error) {
	done := make(chan []byte, 1)
	err := l.send(subject, data, func(answer []byte) {
		select {
		case done <- answer:
		default:
		}
	})
	if err != nil {
		return nil, err
	}
	select {
	case answer := <-done:
		l.runs()
		return answer, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// A fakeCopy follows the log of a fakeServer. Its state is the number of groups.
type fakeCopy struct {
	*fakeLink
	mu       sync.Mutex
	position replicated.Position
	slow     time.Duration // per entry
	founder  bool
	broken   error // what Follow and Own return
}

func (c *fakeCopy) Position() replicated.Position {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.position
}

func (c *fakeCopy) Founder() bool { return c.founder }

func (c *fakeCopy) Checksum(ctx context.Context, sequence uint64) (string, error) {
	for c.Position().Sequence < sequence {
		if !sleep(ctx, time.Millisecond) {
			return "", ctx.Err()
		}
	}
	return fmt.Sprint("sum of ", sequence), nil
}

// step applies the entry after the position, if there is one.
func (c *fakeCopy) step() (more bool, grown <-chan struct{}) {
	c.fakeLink.mu.Lock()
	defer c.fakeLink.mu.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	if p := c.position.Sequence; !c.cut && p < uint64(len(c.log)) {
		e := c.log[p]
		c.position = replicated.Position{Epoch: e.Epoch, Sequence: e.Sequence, Accepted: e.Next() - 1, Number: e.Next() - 1}
		return true, nil
	}
	return false, c.grown
}

func (c *fakeCopy) Follow(ctx context.Context) error {
	for {
		c.runs()
		c.mu.Lock()
		err, slow := c.broken, c.slow
		c.mu.Unlock()
		if err != nil {
			return err
		}
		more, grown := c.step()
		if more {
			if slow > 0 && !sleep(ctx, slow) {
				return ctx.Err()
			}
			continue
		}
		select {
		case <-grown:
		case <-time.After(50 * time.Millisecond): // the cut may be over
		case <-ctx.Done():
			return ctx.Err()
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
}

func (c *fakeCopy) Own(ctx context.Context, epoch uint64, l replicated.Lease) (owned, error) {
	c.runs()
	defer c.runs()
	for {
		c.mu.Lock()
		err := c.broken
		c.mu.Unlock()
		if err != nil {
			return nil, err
		}
		o := &fakeOwner{copy: c, epoch: epoch, lost: make(chan struct{})}
		err = o.append(nil)
		if err == nil {
			c.fakeLink.mu.Lock()
			c.leases = append(c.leases, namedLease{c.node, epoch, l})
			c.fakeLink.mu.Unlock()
			for more := true; more; {
				more, _ = c.step()
			}
			return o, nil
		}
		if errors.Is(err, replicated.ErrDeposed) || !sleep(ctx, 10*time.Millisecond) {
			return nil, err
		}
	}
}

// A fakeOwner is the store of an owner, which can do nothing but append.
type fakeOwner struct {
	store.Store
	copy  *fakeCopy
	epoch uint64
	once  sync.Once
	lost  chan struct{}
}

func (o *fakeOwner) Lost() <-chan struct{} { return o.lost }
func (o *fakeOwner) Close() error          { return nil }

func (o *fakeOwner) Mark(context.Context) (uint64, error) {
	err := o.append(nil)
	return o.copy.Position().Sequence, err
}

// append adds an entry to the log unless there is a later epoch, and applies it.
func (o *fakeOwner) append(groups [][]byte) error {
	c := o.copy
	c.runs()
	c.fakeLink.mu.Lock()
	if c.cut || c.down {
		c.fakeLink.mu.Unlock()
		return errCut
	}
	e := replicated.Entry{Sequence: uint64(len(c.log)) + 1, Epoch: o.epoch, First: 1, Groups: groups}
	if len(c.log) > 0 {
		last := c.log[len(c.log)-1]
		e.First = last.Next()
		if last.Epoch > o.epoch {
			c.fakeLink.mu.Unlock()
			o.once.Do(func() { close(o.lost) })
			return replicated.ErrDeposed
		}
	}
	c.log = append(c.log, e)
	close(c.grown)
	c.grown = make(chan struct{})
	c.fakeLink.mu.Unlock()
	for more := true; more; {
		more, _ = c.step()
	}
	return nil
}

// holders returns the nodes whose lease holds now.
func (s *fakeServer) holders() []string {
	s.mu.Lock()
	all := slices.Clone(s.leases)
	s.mu.Unlock()
	var holders []string
	for _, l := range all {
		if l.Holds() == nil {
			holders = append(holders, fmt.Sprintf("%s (epoch %d)", l.node, l.epoch))
		}
	}
	return holders
}
