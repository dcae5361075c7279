package door

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"kernos/internal/patience"
	"kernos/kernel"
	"kernos/message"
	"kernos/transport"
)

// Waiting is how long a visitor waits for an owner before it gets a 503. The election of JetStream may take more than ten
// seconds.
const Waiting = 20 * time.Second

// Lines passes connections on that carry messages, one per line. It is safe for concurrent use.
type Lines struct {
	// Way leads to the owner.
	Way Way

	// Own answers a message that is about this node, not about the kernel that it leads to, and reports whether it has. Nil
	// means that there are none.
	Own func(ctx context.Context, m *message.Message) (answer message.Message, own bool)

	// HungUp waits until the other end of a connection, which sends nothing more, doesn't read either, and reports whether it
	// came to that. A read deadline ends the wait. Nil means that this can't be found out.
	HungUp func(net.Conn) bool

	// Opaque means that nothing is known of what the lines are: they are passed on as they are, and the connection ends
	// with the owner.
	Opaque bool

	// Waiting is how long a message waits for an owner. 0 means [Waiting].
	Waiting time.Duration

	// Log is for the operator. Nil means silence.
	Log *slog.Logger

	ids kernel.IDs
}

// Away is the error of a message that found no owner, or whose owner has gone before it has answered.
func Away(begun bool) *message.Error {
	if begun {
		return message.Errorf(503, "The node that owned this kernel has gone before it has answered; the message may have had its effect: look, or send it again with an idempotency key")
	}
	return message.Errorf(503, "No node owns this kernel at the moment; try again in some seconds")
}

// errStopping is the error of messages at a node that stops.
var errStopping = message.Errorf(503, "This node is shutting down; connect to another one, or try again")

// A visit is one connection that is passed on.
type visit struct {
	l       *Lines
	ctx     context.Context
	end     context.CancelFunc
	visitor duplex

	out struct { // what the visitor is sent, in whole lines
		sync.Mutex
		*bufio.Writer
	}

	owners chan *owner // those to read from

	sending sync.Mutex // guards what follows, and is held while a line is sent to an owner
	owner   *owner     // nil if there is none
	since   time.Time  // since when one is looked for; zero if none is
	failed  time.Time  // when none was found
	ended   bool       // the visitor sends nothing more
	closing bool       // the connection ends when what is outstanding has been answered

	mu      sync.Mutex
	waiting map[message.ID]*outstanding
	count   uint64
	kept    int  // bytes of lines that are kept
	serves  bool // the visitor answers syscalls

	opaque atomic.Bool // lines have passed that can't be told apart
}

// duplex is a connection whose directions end one by one.
type duplex interface {
	net.Conn
	CloseWrite() error
}

// An owner is a connection to an owner.
type owner struct {
	duplex
	out *bufio.Writer
}

// outstanding is a request that the owner has not answered.
type outstanding struct {
	place    uint64
	request  message.Message // without its data
	line     []byte          // nil if it isn't kept
	safe     bool            // it may be sent to another owner
	register bool            // its reply means that the visitor serves
}

const (
	lineBuffer = message.MaxLine + 2
	maxKept    = 4 << 20 // bytes of lines that one visitor has outstanding and that can be sent again
)

// Serve passes a connection on until it ends, or ctx is done, and closes it.
func (l *Lines) Serve(ctx context.Context, conn net.Conn) {
	v := &visit{l: l, visitor: conn.(duplex), owners: make(chan *owner, 1), waiting: make(map[message.ID]*outstanding)}
	v.opaque.Store(l.Opaque)
	v.ctx, v.end = context.WithCancel(ctx)
	v.out.Writer = bufio.NewWriterSize(conn, lineBuffer)
	var running sync.WaitGroup
	running.Go(v.receive)
	defer context.AfterFunc(v.ctx, func() {
		if ctx.Err() != nil {
			_ = conn.SetWriteDeadline(time.Now().Add(time.Second)) // it may not read
			v.failAll(errStopping)
			v.sayLast(errStopping)
		}
		_ = conn.SetDeadline(past)
	})()
	v.send()
	running.Wait()
	v.end()
	select {
	case o := <-v.owners: // came after the end
		_ = o.Close()
	default:
	}
	_ = conn.Close()
}

// send passes on what the visitor sends.
func (v *visit) send() {
	in := bufio.NewReaderSize(v.visitor, lineBuffer)
	var d message.Decoder
	for within := false; ; {
		if !hasLine(in) {
			v.flushOwner()
		}
		line, err := in.ReadSlice('\n')
		whole := err == nil && !within
		within = errors.Is(err, bufio.ErrBufferFull)
		if len(line) > 0 && v.ctx.Err() == nil {
			v.pass(&d, line, whole)
		}
		if err != nil && !within {
			break
		}
	}
	v.finish()
	if v.l.HungUp == nil || v.ctx.Err() != nil {
		return
	}
	if v.l.HungUp(v.visitor) {
		v.end()
	}
}

// hasLine reports whether the rest of a line is in the buffer.
func hasLine(in *bufio.Reader) bool {
	n := in.Buffered()
	if n == 0 {
		return false
	}
	p, _ := in.Peek(n)
	return bytes.IndexByte(p, '\n') >= 0
}

func (v *visit) flushOwner() {
	v.sending.Lock()
	defer v.sending.Unlock()
	if v.owner != nil {
		_ = v.owner.out.Flush() // what wasn't sent is sent to the next one
	}
}

// pass sends a line, or a part of one, to the owner.
func (v *visit) pass(d *message.Decoder, line []byte, whole bool) {
	if len(bytes.TrimSpace(line)) == 0 && whole {
		return
	}
	var m message.Message
	var err error
	known := false
	if whole && !v.opaque.Load() {
		m, err = d.Decode(bytes.TrimRight(line, "\r\n"))
		known = err == nil
	}
	if known && v.l.Own != nil {
		if answer, own := v.l.Own(v.ctx, &m); own {
			v.sendBack(&m, answer)
			return
		}
	}
	v.sending.Lock()
	defer v.sending.Unlock()
	if !v.connect() {
		if !known {
			v.closing = true
			v.sayLast(Away(false))
			v.end()
			return
		}
		if asks(&m) {
			v.sendBack(&m, m.Fail(Away(false)))
		}
		return
	}
	if known {
		v.track(&m, line)
	} else {
		v.opaque.Store(true)
	}
	_, _ = v.owner.out.Write(line) // if this fails, receive finds out
}

func asks(m *message.Message) bool {
	return m.Kind == message.KindQuery || m.Kind == message.KindCommand
}

// track remembers a request until it is answered.
func (v *visit) track(m *message.Message, line []byte) {
	if !asks(m) {
		return
	}
	o := &outstanding{
		request: message.Message{Kind: m.Kind, Type: m.Type, Metadata: m.Metadata},
		safe:    m.Kind == message.KindQuery || m.Metadata.IdempotencyKey != "",
	}
	o.register = registers(m.Type)
	v.mu.Lock()
	defer v.mu.Unlock()
	v.count++
	o.place = v.count
	if o.safe && v.kept+len(line) <= maxKept {
		o.line = bytes.Clone(line)
		v.kept += len(line)
	}
	if before := v.waiting[m.Metadata.ID]; before != nil {
		v.kept -= len(before.line)
	}
	v.waiting[m.Metadata.ID] = o
}

// registers reports whether the reply to a syscall makes the connection one that serves others.
func registers(t message.Type) bool { return t == "Syscall.Register" || t == "Sys.Register" }

// connect makes sure that there is an owner, for which it waits, and reports whether there is. Sending is held.
func (v *visit) connect() bool {
	if v.owner != nil {
		return true
	}
	// What follows a message that has waited in vain doesn't wait as long.
	patient, now := patience.For(cmp.Or(v.l.Waiting, Waiting)), time.Now()
	if v.since.IsZero() {
		v.since = now
	}
	if now.Sub(v.failed) < patient/20 {
		return false
	}
	until := v.since.Add(patient)
	if least := now.Add(patient / 20); until.Before(least) {
		until = least
	}
	ctx, cancel := context.WithDeadline(v.ctx, until)
	defer cancel()
	conn, err := v.l.Way(ctx, Visitor{Kind: UnixLines})
	if err != nil {
		v.log().Debug("a connection wasn't passed on", "error", err)
		v.failed = time.Now()
		return false
	}
	o := &owner{duplex: conn.(duplex), out: bufio.NewWriterSize(conn, lineBuffer)}
	select {
	case v.owners <- o:
		v.owner, v.since, v.failed = o, time.Time{}, time.Time{}
		return true
	case <-v.ctx.Done():
		_ = conn.Close()
		return false
	}
}

func (v *visit) log() *slog.Logger { return cmp.Or(v.l.Log, slog.New(slog.DiscardHandler)) }

// finish passes on that the visitor sends nothing more.
func (v *visit) finish() {
	v.sending.Lock()
	defer v.sending.Unlock()
	v.ended = true
	if v.owner == nil {
		v.end()
		return
	}
	_ = v.owner.out.Flush()
	_ = v.owner.CloseWrite()
}

// receive passes on what owners send, one after the other.
func (v *visit) receive() {
	defer v.end()
	for {
		select {
		case o := <-v.owners:
			stop := context.AfterFunc(v.ctx, func() { _ = o.Close() })
			last := v.answers(o)
			stop()
			_ = o.Close()
			if v.ctx.Err() != nil || !v.recover(o, last) {
				return
			}
		case <-v.ctx.Done():
			return
		}
	}
}

// answers passes on what an owner sends, until it ends. Last is the line with which the owner has explained that.
func (v *visit) answers(o *owner) (last *message.Error) {
	in := bufio.NewReaderSize(o, lineBuffer)
	var d message.Decoder
	for within := false; ; {
		line, err := in.ReadSlice('\n')
		whole := err == nil && !within
		within = errors.Is(err, bufio.ErrBufferFull)
		if whole && !v.opaque.Load() {
			if m, err := d.Decode(bytes.TrimRight(line, "\r\n")); err == nil {
				if m.Type == transport.Disconnected && m.Kind == message.KindError {
					last = m.Failure()
					continue
				}
				v.note(&m)
			}
		}
		if err == nil || within { // half a line isn't one
			v.write(line, !hasLine(in))
			continue
		}
		v.write(nil, true)
		return last
	}
}

// note notes what a message of the owner means for what is outstanding.
func (v *visit) note(m *message.Message) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if asks(m) {
		v.serves = true
		return
	}
	o := v.waiting[m.Metadata.Causation]
	switch {
	case o == nil:
	case !m.Kind.Answers():
		o.safe = false // the next owner's events would come in addition
	default:
		v.serves = v.serves || o.register && m.Kind == message.KindReply
		v.kept -= len(o.line)
		delete(v.waiting, m.Metadata.Causation)
	}
}

// write sends the visitor a whole line or a part of one.
func (v *visit) write(p []byte, flush bool) {
	v.out.Lock()
	defer v.out.Unlock()
	_, err := v.out.Write(p)
	if err == nil && flush {
		err = v.out.Flush()
	}
	if err != nil {
		v.end() // the visitor has hung up
	}
}

// sendBack sends the visitor an answer of this node.
func (v *visit) sendBack(request *message.Message, answer message.Message) {
	now := time.Now()
	answer.Metadata.ID = cmp.Or(answer.Metadata.ID, message.ID(v.l.ids.Next(now)))
	answer.Metadata.Timestamp = cmp.Or(answer.Metadata.Timestamp, now.UnixMilli())
	v.write(append(message.Append(nil, &answer), '\n'), true)
}

// sayLast sends the visitor why the connection ends.
func (v *visit) sayLast(why *message.Error) {
	v.sendBack(nil, message.Message{Kind: message.KindError, Type: transport.Disconnected, Data: why.Append(nil)})
}

// recover decides what becomes of the visitor when an owner has gone, and reports whether it stays.
func (v *visit) recover(gone *owner, last *message.Error) bool {
	v.sending.Lock()
	defer v.sending.Unlock()
	v.owner = nil
	v.mu.Lock()
	left, serves := len(v.waiting), v.serves
	v.mu.Unlock()
	moving := last == nil || last.Code == 503 // another reason is about this connection
	if v.ended && left == 0 || v.opaque.Load() || serves || !moving {
		v.failAll(Away(true))
		if last != nil {
			v.sayLast(last)
		}
		return false
	}
	again := v.failUnsafe()
	if len(again) > 0 && v.connect() {
		for _, o := range again {
			_, _ = v.owner.out.Write(o.line)
		}
		_ = v.owner.out.Flush()
		if v.ended {
			_ = v.owner.CloseWrite()
		}
		return true
	}
	v.failAll(Away(false))
	return !v.ended
}
