// Package transport is what the wires have in common. [Serve] reads lines of NDJSON, hands the
// messages in them to a kernel, and writes the answers. A [Server] admits connections, counts
// them, paces them and drains them in order. A [Writer] collects what is sent to one peer, and
// writes it together. The folders below bind them to something real: standard input and output,
// a socket, HTTP, WebSocket.
//
// # Goroutines
//
//   - The drain of a [Writer], one per connection: bytes that nothing follows soon, or that the peer doesn't take at
//     once, start it. It ends when nothing waits, or the output fails.
//   - A function that was given to [Server.Go], and one that waits for all of them when the server drains. Drain
//     returns when they have returned, or the grace is over.
//   - Copying an input that can't be interrupted, one per [Stoppable]: it ends with the input, or when something comes
//     after Close.
//   - Timers of a [Writer] and of [Events], for a moment.
package transport

import (
	"context"
	"errors"
	"io"
	"sync"
	"sync/atomic"

	"kernos/kernel"
	"kernos/kernel/connection"
	"kernos/message"
	"kernos/message/ndjson"
	"kernos/message/osevent"
)

// Options are the settings of a conversation. The zero value is usable.
type Options struct {
	// Lenient gives messages that come without an id or a timestamp one.
	Lenient bool

	// Left is that of [connection.Source], after the end of the input. Nil means that it can't be
	// known whether the peer has left.
	Left func(finished <-chan struct{}) bool

	// Gone is called when the peer no longer takes the answers: what it has sent is
	// still read, for the commands in it. Nil means that nothing more is read either.
	Gone func()

	// Asked is called before anything is read, with [connection.Connection.Serves]. May be nil.
	Asked func(serves func() bool)

	// Pacer holds the peer to a number of messages per second. Nil means no limit.
	Pacer *Pacer

	// Inward and Outward translate the data of messages that are received and sent: for a peer on
	// another machine, pointers to blobs are different. Outward is idempotent. May be nil.
	Inward, Outward func(data []byte) []byte

	// Open counts the requests that have come and are not answered. May be nil.
	Open *atomic.Int64
}

// ErrStopped is the error of an input that is no longer read although there may be more
// to come. It is as orderly an end as io.EOF, but what was read of a line that has not
// ended is dropped.
var ErrStopped = errors.New("the input is no longer read")

// stream is one NDJSON conversation with a kernel. Lines of both dialects may stand in
// it side by side; each is answered in its own.
type stream struct {
	k    *kernel.Kernel
	ctx  context.Context
	opts Options

	in         *ndjson.Reader
	either     *osevent.Either
	last       message.Message // the message that Next returned
	deprecated bool            // the peer uses an older version; only the reading goroutine uses this

	out     *Writer
	awaited atomic.Bool // nothing follows the last message: the peer may be waiting for the answer
	errors  atomic.Int64
	flagged sync.Map // the data of events about deprecated forms that the peer has got
	conn    *connection.Connection
	current kernel.Emit // answers in the current dialect
	older   kernel.Emit // answers in version 0.1
	second  kernel.Emit // answers in version 0.2
}

// Serve answers everything that comes from in, and returns when in has ended and all
// of it is answered and written. The error is that of in or out, nil for the end of
// the input.
func Serve(ctx context.Context, k *kernel.Kernel, in io.Reader, out io.Writer, opts *Options) (Result, error) {
	s := newStream(ctx, k, in, out, opts)
	return s.close(s.conn.Serve(ctx))
}

// Start is [Serve] without waiting: it returns at once, and ended is called at the end.
func Start(ctx context.Context, k *kernel.Kernel, in io.Reader, out io.Writer, opts *Options, ended func(Result, error)) {
	s := newStream(ctx, k, in, out, opts)
	s.conn.Start(ctx, func(err error) { ended(s.close(err)) })
}

// close writes what waits, and returns how the conversation went that err has ended.
func (s *stream) close(err error) (Result, error) {
	if closeErr := s.out.Close(nil); closeErr != nil {
		err = &WriteError{closeErr}
	}
	return Result{Errors: s.errors.Load()}, err
}

// A Result is how a conversation went.
type Result struct {
	Errors int64 // error messages written
}

// A WriteError is the error of the side that reads the answers.
type WriteError struct{ Err error }

func (e *WriteError) Error() string { return "can't write answers: " + e.Err.Error() }

// Unwrap returns the error of the writer.
func (e *WriteError) Unwrap() error { return e.Err }

func newStream(ctx context.Context, k *kernel.Kernel, in io.Reader, out io.Writer, opts *Options) *stream {
	s := &stream{k: k, ctx: ctx, out: NewWriter(OutputTo(out), 0)}
	if opts != nil {
		s.opts = *opts
	}
	caller := kernel.SenderIn(ctx).Principal()
	s.either = osevent.NewEither(s.opts.Lenient, func(name string) []message.Type { return k.Registry().For(caller).Near(name) })
	s.current = s.answerCurrent
	s.older = func(m message.Message) { s.answerFitted(m, osevent.Dialect) }
	s.second = func(m message.Message) { s.answerFitted(m, osevent.Numbered) }
	s.in = ndjson.NewReader(in, &ndjson.ReaderOptions{
		Extend:     s.either.Extend,
		BeforeRead: s.out.Flush,
	})
	s.conn = connection.New(k, s, nil)
	if s.opts.Asked != nil {
		s.opts.Asked(s.conn.Serves)
	}
	return s
}

func (s *stream) answer(d *message.Dialect) kernel.Emit {
	switch d {
	case osevent.Dialect:
		return s.older
	case osevent.Numbered:
		return s.second
	}
	return s.current
}

// answerUnasked is answer for what asks nothing, and was not counted as open: it may still
// be refused.
func (s *stream) answerUnasked(d *message.Dialect) kernel.Emit {
	answer := s.answer(d)
	if s.opts.Open == nil {
		return answer
	}
	return func(m message.Message) {
		s.opened(1)
		answer(m)
	}
}

// Detach implements [connection.Source].
func (s *stream) Detach() { s.in.Detach() }

// Next implements [connection.Source].
func (s *stream) Next() (*message.Message, kernel.Emit, error) {
	if err := s.out.Err(); err != nil {
		return s.finish(&WriteError{err})
	}
	return s.next()
}

// finish is Next for when the peer has gone: commands are completed, and the rest is
// dropped.
func (s *stream) finish(gone error) (*message.Message, kernel.Emit, error) {
	if s.opts.Gone == nil {
		return nil, nil, gone
	}
	s.opts.Gone()
	for {
		m, send, err := s.next()
		if _, refused := err.(*connection.Refused); err != nil && !refused {
			return nil, nil, gone
		}
		if err == nil && m.Kind == message.KindCommand {
			return m, send, nil
		}
	}
}

func (s *stream) next() (*message.Message, kernel.Emit, error) {
	line, err := s.in.Next()
	if awaited := !s.in.Buffered(); awaited != s.awaited.Load() {
		s.awaited.Store(awaited)
	}
	if _, tooLong := err.(*ndjson.TooLong); err == nil || tooLong {
		s.opts.Pacer.Wait()
	}
	if err != nil {
		return s.reject(err, nil)
	}
	m := &s.last
	d, err := s.either.Decode(line, m)
	if len(line) > d.MaxLine {
		// Its head looked like version 0.1, and it is not.
		err = &ndjson.TooLong{Limit: d.MaxLine, Salvage: message.SalvageLine(line)}
	}
	if err != nil {
		return s.reject(err, d)
	}
	if d != message.Current || m.Metadata.Older() {
		version := d.Version
		if d == message.Current {
			version = m.Metadata.Version()
			m.Metadata.Migrate()
		} else {
			*m, _ = osevent.Translate(*m)
		}
		if !s.deprecated {
			s.deprecated = true
			s.answer(d)(s.k.Deprecated(m, "version "+version+" of the message schema", "version 0.3: kind, type and data, and schemaVersion 0.3 or none", kernel.SenderIn(s.ctx)))
		}
	}
	if s.opts.Lenient {
		s.k.Stamp(m)
	}
	if s.opts.Inward != nil {
		m.Data = s.opts.Inward(m.Data)
	}
	if event := s.opts.Pacer.Notice(); event != nil {
		s.k.Stamp(event)
		s.answer(d)(*event)
	}
	if !m.Kind.Asks() {
		return m, s.answerUnasked(d), nil
	}
	s.opened(1)
	return m, s.answer(d), nil
}

// Flush implements [connection.Source].
func (s *stream) Flush() { s.out.Flush() }

// Writable implements [connection.Source].
func (s *stream) Writable(wait bool) bool { return s.out.Writable(wait) }

// Left implements [connection.Source].
func (s *stream) Left(finished <-chan struct{}) bool {
	return s.opts.Left != nil && s.opts.Left(finished)
}

// reject reports how a line that isn't a message is answered. Errors that no line is to blame
// for are returned as they are. Nil for the dialect means that it isn't known yet.
func (s *stream) reject(err error, dialect *message.Dialect) (*message.Message, kernel.Emit, error) {
	long, tooLong := errors.AsType[*ndjson.TooLong](err)
	rejection, rejected := errors.AsType[*message.Rejection](err)
	var salvage *message.Salvage
	switch {
	case tooLong:
		salvage = long.Salvage
	case rejected:
		salvage = message.SalvageLine(rejection.Line)
	case err == ErrStopped:
		return nil, nil, io.EOF
	default:
		return nil, nil, err
	}
	s.opened(1)
	if dialect == nil {
		dialect = s.either.Hear(salvage)
	}
	request := salvage.Request(dialect)
	refused := &connection.Refused{Request: request}
	if rejected {
		refused.Err = &rejection.Err
	} else {
		refused.Err = s.k.TooLong(request.Type, dialect.TooLong)
	}
	return nil, s.answer(dialect), refused
}

// answerCurrent writes an answer in the current dialect. The peer waits for events and requests; an
// outcome is written by the goroutine that has given it, when nothing else is ready to be sent.
func (s *stream) answerCurrent(m message.Message) {
	if m.Type == kernel.DeprecatedEvent {
		if _, again := s.flagged.LoadOrStore(string(m.Data), nil); again {
			return
		}
	}
	s.outward(&m)
	fits := true
	s.out.Add(func(dst []byte) []byte {
		start := len(dst)
		dst = message.Append(dst, &m)
		if fits = len(dst)-start <= message.MaxLine; !fits {
			return dst[:start]
		}
		return append(dst, '\n')
	}, m.Kind.Answers())
	if !fits {
		s.answerFitted(m, message.Current)
		return
	}
	s.sent(m.Kind)
	if m.Kind.Answers() && s.awaited.Load() && !s.conn.HasQueued() {
		s.out.Flush() // before what else the kernel has to do for the call
	}
}

// answerFitted makes an answer fit into a line, without holding up others, and
// writes it. Programs that speak an older dialect don't know the event about deprecated forms.
func (s *stream) answerFitted(m message.Message, d *message.Dialect) {
	if m.Type == kernel.DeprecatedEvent && d != message.Current {
		return
	}
	m = s.k.Fit(s.ctx, osevent.Inner(d, m), d.MaxLine, func(m *message.Message) int {
		sent := *m
		s.outward(&sent)
		return len(osevent.AppendIn(d, nil, &sent))
	})
	s.outward(&m)
	s.out.Add(func(dst []byte) []byte { return append(osevent.AppendIn(d, dst, &m), '\n') }, m.Kind.Answers())
	s.sent(m.Kind)
}

func (s *stream) outward(m *message.Message) {
	if s.opts.Outward != nil {
		m.Data = s.opts.Outward(m.Data)
	}
}

func (s *stream) sent(kind message.Kind) {
	if kind == message.KindError {
		s.errors.Add(1)
	}
	if kind.Answers() {
		s.opened(-1)
	}
}

// opened counts requests that have come, or were answered.
func (s *stream) opened(n int64) {
	if s.opts.Open != nil {
		s.opts.Open.Add(n)
	}
}
