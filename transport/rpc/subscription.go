package rpc

import (
	"context"
	"errors"

	"kernos/kernel"
	"kernos/message"
)

// A Subscription is a stream on a wire that carries nothing else, such as the answer to a
// request of HTTP. It is a stream like those of connections: what came of it is kept, and
// it can be resumed, over a connection or with [Service.Resume].
//
//	sub, err := service.Open(ctx, call)
//	…
//	go sub.Run()
//	sub.Follow(reader)
//	<-sub.Over() // or the reader has gone
//	sub.Leave()
type Subscription struct {
	conn  *conn
	st    *stream
	after int64 // the last item that the reader has
	task  task
	ctx   context.Context // the call's context; nil if the call began elsewhere
	free  context.CancelFunc
}

// Open prepares a call; Run, which must be called, makes it. The error is a *message.Error if
// what the message of the call has is not valid, or [ErrClosed].
func (s *Service) Open(ctx context.Context, c Call) (*Subscription, error) {
	if s.closed.Load() {
		return nil, ErrClosed
	}
	origin := newFeeding(ctx, s)
	st := origin.newStream()
	st.held = true // items wait until a reader follows
	t, err := s.compose(st, c)
	if err != nil {
		origin.forget(st)
		return nil, err
	}
	calling, cancel := context.WithCancel(ctx)
	origin.stop = func(message.ID) bool { // works before the kernel has begun, too
		cancel()
		return true
	}
	return &Subscription{conn: origin, st: st, task: t, ctx: calling, free: cancel}, nil
}

// newFeeding returns a connection that carries one stream.
func newFeeding(ctx context.Context, s *Service) *conn {
	f := newFeed()
	c := newConn(ctx, s, f)
	c.feed = f
	return c
}

// ErrAllCame is the error of a stream that is done and whose items have all come.
var ErrAllCame = errors.New("the stream is done, and all of it has come")

// Resume finds a stream of the principal that ctx acts for, wherever it was begun, for a reader
// that has seen its items up to a number, and has called the method, or "" if the method isn't known. From now on the items go to that reader
// only. The error is a *message.Error with the code 410 if the stream, or some of the
// items, are not kept, and 422 if the item doesn't exist, or is of another method; or
// ErrAllCame.
func (s *Service) Resume(ctx context.Context, id string, after int64, method string) (*Subscription, error) {
	st := s.kept.find(kernel.SenderIn(ctx).Principal(), id)
	if st == nil {
		return nil, noStream.public()
	}
	if method != "" && method != st.method {
		return nil, message.Errorf(422, "The stream is one of %s, and not of %s; make the call without the id of an event", message.Clip(st.method, maxName), message.Clip(method, maxName))
	}
	st.mu.Lock()
	all := st.over && after == st.seq
	st.mu.Unlock()
	if all {
		return nil, ErrAllCame
	}
	c := newFeeding(context.WithoutCancel(ctx), s)
	if bad := st.moveTo(c, after); bad != nil {
		return nil, bad.public()
	}
	return &Subscription{conn: c, st: st, after: after}, nil
}

// ID returns what the stream can be resumed by.
func (sub *Subscription) ID() string { return string(sub.st.appendID(nil)) }

// Request returns what the kernel knows the call by; "" if it never gets there.
func (sub *Subscription) Request() message.ID { return sub.st.request }

// After returns the number of the last item that the reader has seen; 0 if it has seen none.
func (sub *Subscription) After() int64 { return sub.after }

// Run makes the call of a subscription that was opened. It returns when the reader has left
// and the call is done, or was given up because it was not resumed: then a query is
// cancelled and a command completed. When the context ends that it was opened with, it is
// cancelled, whatever it is.
func (sub *Subscription) Run() {
	defer sub.free()
	c := sub.conn
	defer context.AfterFunc(c.caller.Life(), c.expire)()
	if sub.task.run != nil {
		sub.task.run()
	} else {
		c.pending = append(c.pending, sub.task)
	}
	_ = c.serve(sub.ctx) // the error only reports that the reader has left, or ctx has ended
	c.leave()
}

// Follow gives the items that the reader has not seen to it, and those that come, until it
// leaves.
func (sub *Subscription) Follow(r Reader) {
	sub.conn.feed.read(r)
	sub.st.replay(sub.conn, sub.after)
}

// Over is closed when nothing more comes: the last item has come, or the stream was resumed
// elsewhere.
func (sub *Subscription) Over() <-chan struct{} { return sub.conn.feed.over }

// Leave must be called when the reader has left, or has got everything. It is given nothing
// after that. What it did not get, for whatever reason, can be resumed while it is kept.
func (sub *Subscription) Leave() {
	sub.conn.feed.read(nil)
	if sub.ctx == nil {
		sub.conn.lose() // Run does this for calls that Open has begun
	}
}
