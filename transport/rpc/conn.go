package rpc

import (
	"context"
	"crypto/rand"
	"math"
	"slices"
	"sync"

	"kernos/internal/jsonscan"
	"kernos/kernel"
	"kernos/kernel/principal"
	"kernos/message"
)

// conn is one connection, and its streams, which may outlive it. It is the source from
// which the kernel takes the calls.
//
// The lock of a stream is taken before that of a connection, never after it.
type conn struct {
	svc  *Service
	ctx  context.Context
	wire Conn

	caller *principal.Principal // the principal that the connection acts for

	feed *feed                 // the wire, if it carries one stream and nothing else; or nil
	name string                // can't be guessed: a client that knows it may resume its streams
	stop func(message.ID) bool // cancels a slow call

	scan    jsonscan.Scanner
	stopped bool            // the wire is no longer read although the peer is there
	pending []task          // calls of a batch that were acknowledged and have not begun
	given   message.Message // the message that Next returned
	out     []byte          // buffer for responses; only the reading goroutine uses it

	mu       sync.Mutex
	streams  map[uint64]*stream // calls of this connection that can be resumed, by number
	resumed  map[*stream]bool   // streams of other connections that were resumed here
	last     uint64             // number of the newest stream
	open     int                // streams whose items go here, and that are not done
	running  int                // calls that came over this connection and are not done
	finished []*stream          // streams that are done and whose items went here, the first one first
	bytes    int                // bytes kept for finished streams
	changed  *sync.Cond         // open or running is less
}

// task is what is to be done when a call is acknowledged: something of the service's own, or
// something for the kernel.
type task struct {
	run  func()
	m    message.Message
	emit kernel.Emit
}

// Limits on the finished streams that are kept while their connection lives: their last items
// may be in flight when it is lost, and are then resumed on another one.
const (
	keepFinished      = 128
	keepFinishedBytes = 128 << 10
)

func newConn(ctx context.Context, s *Service, w Conn) *conn {
	c := &conn{svc: s, ctx: ctx, wire: w, caller: kernel.SenderIn(ctx).Principal(), name: rand.Text(), streams: make(map[uint64]*stream)}
	c.changed = sync.NewCond(&c.mu)
	return c
}

// newStream returns a stream whose items go to this connection, or nil if there are too
// many.
func (c *conn) newStream() *stream {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open >= c.svc.opts.Subscriptions {
		return nil
	}
	if len(c.streams) == 0 {
		c.svc.kept.add(c)
	}
	c.last++
	st := &stream{svc: c.svc, from: kernel.SenderIn(c.ctx), origin: c, number: c.last, at: c}
	c.streams[st.number] = st
	c.open++
	c.running++
	return st
}

// forget takes a stream that came over this connection out of those that can be resumed.
func (c *conn) forget(st *stream) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.streams, st.number)
	if len(c.streams) == 0 {
		c.svc.kept.remove(c)
	}
	st.release(math.MaxInt)
}

// finish notes that a stream is done that came over this connection. Its lock is held.
func (c *conn) finish(st *stream) {
	if at := st.at; at != nil {
		at.mu.Lock()
		at.open--
		at.retire(st)
		at.changed.Broadcast()
		at.mu.Unlock()
		at.bound()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.running--
	c.changed.Broadcast()
}

// retire counts a stream among those that are done. mu is held; bound follows.
func (c *conn) retire(st *stream) {
	c.finished = append(c.finished, st)
	st.counted = len(st.log)
	c.bytes += st.counted
}

// bound forgets the first of the streams that are done, if they are too many.
func (c *conn) bound() {
	for first := c.surplus(); first != nil; first = c.surplus() {
		first.origin.forget(first)
	}
}

func (c *conn) surplus() *stream {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.finished) <= keepFinished && (c.bytes <= keepFinishedBytes || len(c.finished) <= 1) {
		return nil
	}
	first := c.finished[0]
	c.unretire(first)
	delete(c.resumed, first)
	return first
}

// unretire undoes retire. mu is held. It is nearly always the one that was done first.
func (c *conn) unretire(st *stream) {
	i := slices.Index(c.finished, st)
	if i < 0 {
		return
	}
	c.bytes -= st.counted
	if i > 0 {
		c.finished = slices.Delete(c.finished, i, i+1)
		return
	}
	c.finished[0] = nil
	c.finished = c.finished[1:]
}

// until waits for something that the end of a stream may bring about.
func (c *conn) until(so func() bool) error {
	stop := context.AfterFunc(c.ctx, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.changed.Broadcast()
	})
	defer stop()
	c.mu.Lock()
	defer c.mu.Unlock()
	for !so() {
		if err := c.ctx.Err(); err != nil {
			return err
		}
		c.changed.Wait()
	}
	return nil
}
