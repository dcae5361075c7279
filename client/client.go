// Package client calls the methods of any server that speaks the introspective streaming
// RPC protocol. It knows none of them in advance: it asks the server for its methods, keeps
// the answer, and checks what it sends against it.
//
//	c, err := client.Dial(ctx, client.Target{URL: "ws://127.0.0.1:7420/", Token: token})
//	defer c.Close()
//	catalog, err := client.Discover(ctx, c, client.OpenCache("")) // from the cache, if the hash is the same
//	method, err := catalog.Method(ctx, "storage", "tree_get")
//	err = method.Validate(params)                                 // an error that describes what is wrong
//	s, err := c.Stream(ctx, method.Call(), params)
//	for item, err := range s.Items(ctx) { … }
//
// Every call is a stream of items: progress, data, guidance, an error, and done. A
// connection that breaks is made again, with pauses that grow, and streams whose items
// are numbered resume after the last item that came, without gap or repeat.
//
// # Goroutines
//
//   - Keeping the connection, one per client: [Dial] starts it, and it ends with [Client.Close].
//   - Pinging the server, one per connection: it ends when the connection is lost.
//   - What the end of a context causes, and a timer for a server that doesn't close its side.
package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"kernos/internal/backoff"
)

const (
	// maxUnread is how many items of a stream wait to be taken. Then the connection is not
	// read any further: a program that leaves a stream unread closes it, or gives it a
	// client of its own.
	maxUnread = 256

	// maxEarly is how many items are kept that come before the acknowledgement of their
	// stream. Servers should not send such, and some do.
	maxEarly = 64

	// dialTime is how long one try to connect may take.
	dialTime = 10 * time.Second

	// closeTime is how long a server may take to close its side of a connection.
	closeTime = 300 * time.Millisecond

	shortestPause = 50 * time.Millisecond
	longestPause  = 5 * time.Second

	// defaultPatience is how long a connection is tried to be made again.
	defaultPatience = 30 * time.Second
)

// The methods of the protocol itself.
const (
	methodSchema       = "service_schema"
	methodModuleSchema = "service_module_schema"
	methodHash         = "service_hash"
	methodUnsubscribe  = "service_unsubscribe"
	methodResume       = "service_resume"
)

// A Client makes calls, any number at a time, over one connection that it makes again when
// it breaks. It is safe for concurrent use.
type Client struct {
	target   Target
	endpoint *endpoint
	ctx      context.Context // ends with the client
	cancel   context.CancelFunc
	ended    chan struct{} // closed when the keeper has ended
	wake     chan struct{} // wakes an idle keeper: a caller wants a connection

	mu      sync.Mutex // guards what follows
	link    *webSocket // nil while there is no connection
	changed chan struct{}
	idle    bool  // the keeper does not try to connect
	failure error // why the last try to connect failed
	closed  bool
	nextID  uint64
	waiting map[uint64]*waiting // requests without an answer, by id
	streams map[string]*Stream  // keys are subscriptions
	early   []notification
	came    bool // items have come before the acknowledgement of their stream
	missed  bool // some early items were dropped; whose they were is not known
	hash    string
}

// waiting is a request that is not answered yet.
type waiting struct {
	stream *Stream
	resume bool
	acked  chan error // takes one; nil for a resumption
}

// Dial connects to a server. Ctx bounds the connecting only. The error is an *Unreachable,
// an *Untrusted if the server can't show who it is, or a *Refused if the server
// does not let this client in.
func Dial(ctx context.Context, t Target) (*Client, error) {
	e, err := t.endpoint()
	if err != nil {
		return nil, err
	}
	first, err := e.dial(ctx)
	if err != nil {
		e.close()
		return nil, err
	}
	c := &Client{
		target: t, endpoint: e, ended: make(chan struct{}), wake: make(chan struct{}, 1), link: first, changed: make(chan struct{}),
		waiting: make(map[uint64]*waiting), streams: make(map[string]*Stream),
	}
	c.ctx, c.cancel = context.WithCancel(context.WithoutCancel(ctx))
	go c.keep(first)
	return c, nil
}

// Close ends the connection, and every stream with ErrClosed. It returns when nothing of
// the client still runs.
func (c *Client) Close() error {
	c.mu.Lock()
	c.closed = true
	l := c.link
	c.mu.Unlock()
	if l != nil {
		// A server that does not close its side in time is not waited for.
		impatient := time.AfterFunc(closeTime, c.cancel)
		l.closeInOrder()
		impatient.Stop()
	}
	c.cancel()
	<-c.ended
	c.endpoint.close()
	return nil
}

// Hash returns the service hash that the last item had, or "".
func (c *Client) Hash() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.hash
}

// EarlyItems reports whether items have come before the acknowledgement of their stream, which
// the protocol doesn't allow.
func (c *Client) EarlyItems() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.came
}

// keep has the connection: it reads from it until it breaks, and makes it again. It ends
// with the client.
func (c *Client) keep(l *webSocket) {
	defer close(c.ended)
	for {
		err := c.receive(l)
		l.close()
		if !c.dropped(err) {
			return
		}
		for {
			if l, err = c.redial(); err == nil {
				break
			}
			if !c.waitForCaller(err) {
				return
			}
		}
		if !c.restore(l) {
			l.close()
			c.dropped(ErrClosed)
			return
		}
	}
}

// receive handles what comes, until the connection breaks.
func (c *Client) receive(l *webSocket) error {
	stop := l.watch(c.ctx)
	defer stop()
	for {
		text, err := l.read(c.ctx)
		if err != nil {
			return err
		}
		frames, err := readFrames(text)
		if err != nil {
			return &Lost{Err: fmt.Errorf("the server sent a frame that is not JSON-RPC: %w", err)}
		}
		for i := range frames {
			if f := &frames[i]; f.notifies() {
				c.deliver(l, f.about)
			} else {
				c.answered(l, f)
			}
		}
	}
}

// dropped lets go of a connection. Requests that were not answered fail, because it is
// unknown whether they were carried out; streams that can't continue do too. It reports whether the
// client is still open.
func (c *Client) dropped(cause error) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.link = nil
	lost := asLost(cause)
	if c.closed {
		lost = ErrClosed
	}
	for _, w := range c.waiting {
		if w.acked != nil {
			w.acked <- lost
		}
	}
	clear(c.waiting)
	c.early, c.missed = nil, false
	for id, s := range c.streams {
		if c.closed || !s.resumable() {
			delete(c.streams, id)
			s.finish(lost)
		}
	}
	return !c.closed
}

// redial connects, at once and then with pauses that grow, until the target's patience is
// over.
func (c *Client) redial() (*webSocket, error) {
	ctx, cancel := context.WithTimeout(c.ctx, cmp.Or(c.target.Patience, defaultPatience))
	defer cancel()
	pauses := backoff.Backoff{First: shortestPause, Longest: longestPause, Jitter: true}
	for {
		dialing, stop := context.WithTimeout(c.ctx, dialTime)
		l, err := c.endpoint.dial(dialing)
		stop()
		if err == nil {
			return l, nil
		}
		_, untrusted := errors.AsType[*Untrusted](err)
		if r, refused := errors.AsType[*Refused](err); refused && !r.passing() || untrusted || c.ctx.Err() != nil {
			return nil, err
		}
		if !pauses.Wait(ctx.Done()) {
			return nil, err
		}
	}
}

// waitForCaller gives up until a caller wants a connection. It reports whether the client is still
// open.
func (c *Client) waitForCaller(cause error) bool {
	c.mu.Lock()
	if c.closed {
		cause = ErrClosed
	}
	for id, s := range c.streams {
		delete(c.streams, id)
		s.finish(cause)
	}
	c.failure, c.idle = cause, true
	c.wakeWaiters()
	c.mu.Unlock()
	select {
	case <-c.wake:
		return true
	case <-c.ctx.Done():
		return false
	}
}

// wakeWaiters wakes callers that wait for a connection. The caller holds the lock.
func (c *Client) wakeWaiters() {
	close(c.changed)
	c.changed = make(chan struct{})
}

// restore makes a connection the client's, and asks for the rest of the streams. It
// reports whether the client is still open.
func (c *Client) restore(l *webSocket) bool {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return false
	}
	c.link, c.failure = l, nil
	c.wakeWaiters()
	var requests [][]byte
	for _, id := range slices.Sorted(maps.Keys(c.streams)) {
		s := c.streams[id]
		c.nextID++
		c.waiting[c.nextID] = &waiting{stream: s, resume: true}
		requests = append(requests, ownRequest(c.nextID, methodResume, s.id, s.last))
	}
	c.mu.Unlock()
	for _, r := range requests {
		if l.write(c.ctx, r) != nil {
			break // the connection has broken again, which its reader will notice
		}
	}
	return true
}

// connected returns the connection, and waits for it if it is being made.
func (c *Client) connected(ctx context.Context) (*webSocket, error) {
	woken := false
	for {
		c.mu.Lock()
		l, changed := c.link, c.changed
		switch {
		case c.closed:
			c.mu.Unlock()
			return nil, ErrClosed
		case l != nil:
			c.mu.Unlock()
			return l, nil
		case c.idle && woken:
			err := c.failure
			c.mu.Unlock()
			return nil, err
		case c.idle:
			c.idle, woken = false, true
			c.wake <- struct{}{} // there is room: only the caller that ends idleness sends
		}
		c.mu.Unlock()
		woken = true // one attempt is enough, whichever caller started it
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-c.ctx.Done():
			return nil, ErrClosed
		}
	}
}

// answered handles the answer to a request.
func (c *Client) answered(l *webSocket, f *frame) {
	id, err := strconv.ParseUint(string(f.ID), 10, 64)
	if err != nil {
		return // an error about a frame that we did not send
	}
	c.mu.Lock()
	w := c.waiting[id]
	delete(c.waiting, id)
	if w == nil {
		c.mu.Unlock()
		return
	}
	s := w.stream
	switch {
	case w.resume:
		// A server that does not know how to resume takes it for a call like any other,
		// and starts another stream.
		if f.Error != nil || string(f.Result) != string(s.id) && string(f.Result) != "true" {
			delete(c.streams, string(s.id))
			s.finish(&Lost{Err: errors.New("the connection broke, and the server has not kept the stream")})
		}
	case f.Error != nil:
		w.acked <- f.Error
	case s.isClosed():
		w.acked <- ErrClosed
		c.mu.Unlock()
		_ = l.write(c.ctx, ownRequest(0, methodUnsubscribe, f.Result)) // the items have no reader
		return
	default:
		s.id = f.Result
		c.streams[string(s.id)] = s
		w.acked <- nil
	}
	var early []notification
	if len(c.early) > 0 {
		c.early = slices.DeleteFunc(c.early, func(n notification) bool {
			if string(n.Subscription) == string(s.id) {
				early = append(early, n)
				return true
			}
			return false
		})
	}
	if !w.resume && c.missed {
		early = nil
		delete(c.streams, string(s.id))
		s.finish(&Broken{fmt.Sprintf("more than %d items came before streams were acknowledged, and some were dropped", maxEarly)})
	}
	if len(c.waiting) == 0 {
		c.early, c.missed = nil, false // no stream is left that they could belong to
	}
	c.mu.Unlock()
	for _, n := range early {
		c.deliver(l, n)
	}
}

// deliver gives an item to its stream, and waits until there is room for it.
func (c *Client) deliver(l *webSocket, n notification) {
	item, err := readItem(n.Item)
	if n.Seq > 0 {
		item.Seq = n.Seq
	}
	c.mu.Lock()
	s := c.streams[string(n.Subscription)]
	if s == nil {
		if len(c.waiting) > 0 {
			if len(c.early) == maxEarly {
				c.early, c.missed = c.early[1:], true
			}
			c.early, c.came = append(c.early, n), true
		}
		c.mu.Unlock()
		return
	}
	if err == nil && item.ServiceHash != "" {
		c.hash = item.ServiceHash
	}
	if err == nil {
		if s.repeats(item.Seq) {
			c.mu.Unlock()
			return
		}
		err = s.count(item.Seq)
	}
	if err != nil {
		delete(c.streams, string(s.id))
		s.finish(err)
		c.mu.Unlock()
		return
	}
	c.mu.Unlock()

	l.delivering.Store(true)
	select {
	case s.items <- item:
	case <-s.closed:
	case <-c.ctx.Done():
	}
	l.delivering.Store(false)
	if item.Type == Done {
		c.mu.Lock()
		delete(c.streams, string(s.id))
		c.mu.Unlock()
		s.finish(nil)
	}
}
