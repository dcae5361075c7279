package rpc

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"maps"
	"slices"
	"strconv"
	"sync"

	"kernos/internal/jsonscan"
	"kernos/kernel"
	"kernos/kernel/connection"
	"kernos/message"
)

// conn is one connection, and its streams, which may outlive it. It is the source from
// which the kernel takes the calls.
//
// The lock of a stream is taken before that of a connection, never after it.
type conn struct {
	svc  *Service
	ctx  context.Context
	wire Wire
	feed *feed                 // the wire, if it carries one stream and nothing else; or nil
	name string                // can't be guessed: a client that knows it may resume its streams
	stop func(message.ID) bool // cancels a slow call

	scan    jsonscan.Scanner
	stopped bool      // the wire is not read any more although the peer is there
	pending []pending // calls of a batch that were acknowledged and have not begun
	out     []byte    // for responses; of the goroutine that reads

	mu       sync.Mutex
	streams  map[*stream]bool // whose items go here, or went here and are kept
	last     uint64           // number of a stream
	open     int              // streams whose items go here, and that are not done
	running  int              // calls that came over this connection and are not done
	finished []*stream        // streams that are done and whose items went here, the first one first
	bytes    int              // of what is kept of those
	changed  chan struct{}    // closed when open or running is less; nil unless a goroutine waits
}

// pending is a call that waits for the kernel.
type pending struct {
	m    message.Message
	emit kernel.Emit
}

// What is kept of streams that are done, while the connection lives that their items went to:
// the last of them may be on their way when it is lost.
const (
	keepFinished      = 128
	keepFinishedBytes = 128 << 10
)

func newConn(ctx context.Context, s *Service, w Wire) *conn {
	return &conn{svc: s, ctx: ctx, wire: w, name: rand.Text(), streams: make(map[*stream]bool)}
}

// serve answers the calls of the connection. There are never more slow calls than streams, so
// the connection never stands still because of them: it must be able to unsubscribe.
func (c *conn) serve(ctx context.Context) error {
	served := connection.New(c.svc.k, c, &connection.Options{
		InFlight:   2 * c.svc.opts.Subscriptions, // and as many calls that need no answer
		NoRequests: true,
	})
	if c.feed == nil { // otherwise there is something that does it from the beginning
		c.stop = served.Cancel
	}
	return served.Serve(ctx)
}

// Left implements [connection.Source]. A wire that is not stopped is read, and Read tells of a
// peer that has left.
func (c *conn) Left(finished <-chan struct{}) bool { return c.stopped && c.wire.Left(finished) }

// Detach implements [connection.Source]. Each frame has memory of its own.
func (c *conn) Detach() {}

// Flush implements [connection.Source].
func (c *conn) Flush() { c.wire.Flush() }

// Room implements [connection.Source]: a write to the wire waits by itself.
func (c *conn) Room(wait bool) bool { return wait }

// errLeft is the end of a connection whose peer is gone and will not come back.
var errLeft = errors.New("the peer is gone")

// Next implements [connection.Source].
func (c *conn) Next() (message.Message, kernel.Emit, error) {
	for {
		if len(c.pending) > 0 {
			next := c.pending[0]
			c.pending[0] = pending{}
			if c.pending = c.pending[1:]; len(c.pending) == 0 {
				c.pending = nil
			}
			return next.m, next.emit, nil
		}
		frame, err := c.wire.Read()
		if err != nil {
			return message.Message{}, nil, c.ended(err)
		}
		if m, emit, ok := c.receive(frame); ok {
			return m, emit, nil
		}
	}
}

// receive answers a frame. If it is a call of a syscall, it returns what the kernel is to
// do.
func (c *conn) receive(frame []byte) (message.Message, kernel.Emit, bool) {
	calls, batch, bad := parse(&c.scan, frame)
	if bad != nil {
		c.write(appendFailure(c.out[:0], nil, bad))
		return message.Message{}, nil, false
	}
	if !batch {
		var t task
		c.out = c.begin(c.out[:0], &calls[0], &t)
		if len(c.out) > 0 {
			c.write(c.out)
		}
		if t.run != nil {
			t.run()
		}
		return t.m, t.emit, t.emit != nil
	}
	c.receiveBatch(calls)
	return message.Message{}, nil, false
}

// maxBatchOut is how many bytes the responses to a batch may have, beside the one with which
// they have more.
const maxBatchOut = 1 << 20

// receiveBatch answers a batch: all acknowledgements in one response, and then the streams.
func (c *conn) receiveBatch(calls []request) {
	out := append(c.out[:0], '[')
	tasks := make([]task, len(calls))
	for i := range calls {
		before := len(out)
		if before > maxBatchOut && calls[i].bad == nil && calls[i].id != nil {
			calls[i].bad = &failure{codeTooLarge, "Response too large: the responses to a batch may have " + strconv.Itoa(maxBatchOut) + " bytes; send several"}
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		from := len(out)
		if out = c.begin(out, &calls[i], &tasks[i]); len(out) == from {
			out = out[:before] // a notification
		}
	}
	c.out = out
	if len(out) > 1 {
		c.write(append(out, ']'))
	}
	for _, t := range tasks {
		if t.run != nil {
			t.run()
		}
		if t.emit != nil {
			c.pending = append(c.pending, pending{t.m, t.emit})
		}
	}
}

// maxOut is how much room for responses a connection keeps.
const maxOut = 4 << 10

// write sends a response.
func (c *conn) write(frame []byte) {
	c.wire.Write(frame, true) // Read sends it, if not before
	if c.out = frame[:0]; cap(frame) > maxOut {
		c.out = nil
	}
}

// task is what is to be done when a call is acknowledged: something of the service's own, or
// something for the kernel.
type task struct {
	run  func()
	m    message.Message
	emit kernel.Emit
}

// begin appends the response to a call, if it gets one, and says what is to be done after
// that.
func (c *conn) begin(dst []byte, r *request, t *task) []byte {
	switch {
	case r.bad != nil:
		if r.id == nil {
			return dst
		}
		return appendFailure(dst, r.id, r.bad)
	case r.id == nil:
		c.notified(r, t)
		return dst
	}
	if plain, ok := plainMethods[r.method]; ok {
		return plain(c, dst, r, t)
	}
	if len(r.method) > 4 && r.method[:4] == "rpc." {
		return appendFailure(dst, r.id, &failure{codeNoMethod, "Method not found: of the methods that begin with rpc. there is rpc.discover"})
	}
	st := c.newStream()
	if st == nil {
		return appendFailure(dst, r.id, &failure{codeTooMany, "Too many subscriptions: " + strconv.Itoa(c.svc.opts.Subscriptions) +
			" streams of this connection are open; wait until one is done, or end one with service_unsubscribe"})
	}
	dst = append(append(dst, `{"jsonrpc":"2.0","id":`...), r.id...)
	dst = append(st.appendID(append(dst, `,"result":"`...)), `"}`...)
	*t = c.svc.task(st, r.method, r.params)
	if text(r.kind) == string(message.KindCommand) {
		t.m.Kind = message.KindCommand
	}
	t.m.Metadata.Correlation = text(jsonscan.Member(r.metadata, "correlation"))
	t.m.Metadata.IdempotencyKey = text(jsonscan.Member(r.metadata, "idempotencyKey"))
	return dst
}

// notified runs a call without an id, which gets no answer.
func (c *conn) notified(r *request, t *task) {
	if plain, ok := plainMethods[r.method]; ok {
		plain(c, nil, r, t)
		return
	}
	if _, ok := c.svc.own(r.method); ok {
		return
	}
	if silent := c.svc.task(&stream{svc: c.svc}, r.method, r.params); silent.emit != nil {
		t.m, t.emit = silent.m, func(message.Message) {}
	}
}

// newStream returns a stream whose items go to this connection, or nil if there are too
// many.
func (c *conn) newStream() *stream {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open >= c.svc.opts.Subscriptions {
		return nil
	}
	c.last++
	st := &stream{svc: c.svc, home: c, id: streamID{c.name, c.last}, at: c}
	c.streams[st] = true
	c.open++
	c.running++
	c.svc.kept.add(st)
	return st
}

// finish notes that a stream is done that came over this connection. Its lock is held.
func (c *conn) finish(st *stream) {
	if at := st.at; at != nil {
		at.mu.Lock()
		at.open--
		at.retire(st)
		at.signal()
		at.mu.Unlock()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.running--
	c.signal()
}

// signal wakes the goroutines that wait for streams to end. mu is held.
func (c *conn) signal() {
	if c.changed != nil {
		close(c.changed)
		c.changed = nil
	}
}

// retire counts a stream among those that are done. If they are too many, the first of them
// are forgotten. mu is held.
func (c *conn) retire(st *stream) {
	c.finished = append(c.finished, st)
	st.counted = len(st.log)
	c.bytes += st.counted
	for len(c.finished) > keepFinished || c.bytes > keepFinishedBytes && len(c.finished) > 1 {
		first := c.finished[0]
		c.unretire(first)
		delete(c.streams, first)
		c.svc.kept.forget(first)
	}
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

// ended is what becomes of the connection when its wire has ended.
func (c *conn) ended(err error) error {
	switch {
	case errors.Is(err, ErrStopped): // what has begun is finished and sent, also for others
		c.stopped = true
		finished, watched := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(watched)
			if c.wire.Left(finished) {
				c.leave()
			}
		}()
		err := c.until(func() bool { return c.open == 0 })
		close(finished)
		<-watched
		return cmp.Or(err, io.EOF)
	case err == io.EOF:
		c.leave()
	default:
		c.lose()
	}
	// What was resumed elsewhere goes on, and what may be resumed, too.
	if err := c.until(func() bool { return c.running == 0 }); err != nil {
		return err
	}
	return errLeft
}

// until waits for something that the end of a stream may bring about.
func (c *conn) until(so func() bool) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for !so() {
		if c.changed == nil {
			c.changed = make(chan struct{})
		}
		changed := c.changed
		c.mu.Unlock()
		var err error
		select {
		case <-changed:
		case <-c.ctx.Done():
			err = c.ctx.Err()
		}
		c.mu.Lock()
		if err != nil {
			return err
		}
	}
	return nil
}

// all returns the streams whose items go, or went, to this connection.
func (c *conn) all() []*stream {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Collect(maps.Keys(c.streams))
}

// leave gives up what a peer had that said goodbye.
func (c *conn) leave() {
	for _, st := range c.all() {
		st.abandon(func() bool { return st.at == c })
	}
}

// lose keeps the streams of a peer that may come back.
func (c *conn) lose() {
	for _, st := range c.all() {
		st.mu.Lock()
		if st.at == c {
			st.detach()
			c.svc.kept.lose(st)
		}
		st.mu.Unlock()
	}
	c.svc.kept.sweep()
}
