package rpc

import (
	"cmp"
	"context"
	"errors"
	"io"
	"strconv"

	"kernos/internal/jsonscan"
	"kernos/kernel"
	"kernos/kernel/connection"
	"kernos/message"
)

// serve answers the calls of the connection. There are never more slow calls than streams, so
// the connection never stands still because of them: it must be able to unsubscribe.
func (c *conn) serve(ctx context.Context) error {
	served := connection.New(c.svc.k, c, &connection.Options{
		InFlight:   2 * c.svc.opts.Subscriptions, // streams, and as many calls that need no answer
		NoRequests: true,
	})
	if c.feed == nil { // otherwise there is something that does it from the beginning
		c.stop = served.Cancel
	}
	return served.Serve(ctx)
}

// Left implements [connection.Source]. A wire that is not stopped is read, and Read reports
// a peer that has left.
func (c *conn) Left(finished <-chan struct{}) bool { return c.stopped && c.wire.Left(finished) }

// Detach implements [connection.Source]. Each frame has memory of its own.
func (c *conn) Detach() {}

// Flush implements [connection.Source].
func (c *conn) Flush() { c.wire.Flush() }

// Writable implements [connection.Source]: a write to the wire waits by itself.
func (c *conn) Writable(wait bool) bool { return wait }

// errLeft is the end of a connection whose peer is gone and will not come back.
var errLeft = errors.New("the peer is gone")

// Next implements [connection.Source].
func (c *conn) Next() (*message.Message, kernel.Emit, error) {
	for {
		if len(c.pending) > 0 {
			next := c.pending[0]
			c.pending[0] = task{}
			if c.pending = c.pending[1:]; len(c.pending) == 0 {
				c.pending = nil
			}
			c.given = next.m
			return &c.given, next.emit, nil
		}
		frame, err := c.wire.Read()
		if err != nil {
			return nil, nil, c.ended(err)
		}
		if m, emit, ok := c.receive(frame); ok {
			c.given = m
			return &c.given, emit, nil
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
			c.pending = append(c.pending, t)
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

// begin appends the response to a call, if it gets one, and returns what is to be done after
// that.
func (c *conn) begin(dst []byte, r *request, t *task) []byte {
	switch {
	case r.bad != nil:
		if r.bad.code == codeInvalidParams {
			c.svc.Refused(c.ctx, r.method, &message.Error{Code: 422, Message: r.bad.text})
		}
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
	st.mu.Lock() // the caller's rights may end at this moment
	*t = c.svc.task(st, r.method, r.params)
	if t.emit != nil {
		if err := r.describe(c.svc, &t.m); err != nil {
			e, _ := message.ErrorOf(err)
			*t = task{run: func() { st.forbid(e) }}
		}
		st.request = t.m.Metadata.ID
	}
	st.mu.Unlock()
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
	st := &stream{svc: c.svc, from: kernel.SenderIn(c.ctx)}
	silent := c.svc.task(st, r.method, r.params)
	if silent.emit == nil {
		t.run = silent.run
		return
	}
	if err := r.describe(c.svc, &silent.m); err != nil {
		e, _ := message.ErrorOf(err)
		st.record(e)
		return
	}
	t.m, t.emit = silent.m, func(message.Message) {}
}

// plainMethods are those that are answered at once, without a stream.
var plainMethods = map[string]func(c *conn, dst []byte, r *request, t *task) []byte{
	"rpc.discover":        discover,
	"service_unsubscribe": unsubscribe,
	"service_resume":      resume,
}

func discover(c *conn, dst []byte, r *request, _ *task) []byte {
	document, _ := c.svc.OpenRPC(c.caller)
	if err := c.svc.k.AwaitFence(c.ctx); err != nil {
		e, _ := message.ErrorOf(err)
		return appendFailure(dst, r.id, &failure{codeUnavailable, e.Message})
	}
	return appendResult(dst, r.id, document)
}

// unsubscribe ends a stream. Its last items come before the response, unless it is resumed in
// the same batch: they come when the batch has its response then.
func unsubscribe(c *conn, dst []byte, r *request, _ *task) []byte {
	id, ok := firstText(r.params, "subscription")
	if !ok {
		return appendFailure(dst, r.id, &failure{codeInvalidParams, "Invalid params: service_unsubscribe takes the id of a subscription"})
	}
	return appendResult(dst, r.id, strconv.AppendBool(nil, c.svc.Unsubscribe(c.caller, id)))
}

// resume continues a stream here, from the item after the last that the caller has seen.
func resume(c *conn, dst []byte, r *request, t *task) []byte {
	id, after, ok := ResumeParams(r.params)
	if !ok {
		return appendFailure(dst, r.id, &failure{codeInvalidParams, resumeTakes})
	}
	st := c.svc.kept.find(c.caller, id)
	if st == nil {
		return appendFailure(dst, r.id, noStream)
	}
	if bad := st.moveTo(c, after); bad != nil {
		return appendFailure(dst, r.id, bad)
	}
	t.run = func() { st.replay(c, after) }
	return appendResult(dst, r.id, jsonscan.AppendQuoted(nil, id))
}

// ended ends the connection after its wire has ended with err.
func (c *conn) ended(err error) error {
	switch {
	case errors.Is(err, ErrStopped): // calls that have begun finish, and their items are sent
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
	case err == io.EOF, c.caller.Life().Err() != nil:
		c.leave()
	default:
		c.lose()
	}
	// Streams that were resumed elsewhere continue, and those that may be resumed, too.
	if err := c.until(func() bool { return c.running == 0 }); err != nil {
		return err
	}
	return errLeft
}
