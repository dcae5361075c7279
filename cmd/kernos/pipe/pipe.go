// Package pipe connects programs to a kernel by their standard input and output. [Run] lets the daemon answer messages,
// [Handle] serves a syscall with a plain program, and [Convert] translates messages from one dialect into another.
//
// Run copies lines to the daemon and answers to standard output, and leaves a daemon that is shutting down for the next
// one as long as no message can run twice. A killed daemon ends its connections as one that shuts down does. So requests
// and outcomes are counted: if outcomes are missing, the same daemon must still answer, or the exit status is 4. Events
// are not repeated, because nothing confirms that an event was taken.
//
// Handle runs one process per request, with the data of the request as JSON on its standard input, and the reply as JSON
// on its standard output. What a program prints is a sequence of JSON values. A value
//
//	{"kind":"event","type":"Text.Counted","data":{…}}
//
// is an event, and is sent as soon as it is whole. The one other value is the reply, or the error
// {"code":…,"message":…} if the program ends with a status other than 0.
//
// # Goroutines
//
//   - Reading standard input, one: [Run] starts it. It ends with the input, or with the process.
//   - Sending lines, one: it begins with each connection to a daemon, and ends before the next one.
//   - Listening for signals, and draining when one has come, three: [Handle] starts them, and they end before it does.
//   - A request that a program serves, one per request, and one that reads what the program prints: they end when the
//     process of the request has ended.
package pipe

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/signal"
	"strings"
	"sync/atomic"
	"syscall"

	"kernos/cmd/kernos/server"
	"kernos/cmd/kernos/terminal"
	"kernos/internal/exit"
	"kernos/message"
	"kernos/transport"
	"kernos/transport/unix"
)

// maxRefusals is how many daemons in a row may be shutting down.
const maxRefusals = 5

// Options are how [Run] lets a server answer messages.
type Options struct {
	Lenient bool // messages without an id or a time get one
	NoStart bool // a daemon of this user that isn't running is an error, and not started
}

// Run lets a server answer the messages that come from in. The daemon of this user is started if it
// isn't running, unless NoStart is set.
func Run(ctx context.Context, s *server.Server, o Options, in io.Reader, out io.Writer) error {
	signal.Ignore(syscall.SIGPIPE) // a reader that goes away is noticed by the error of the next write
	if o.Lenient {
		in = newStamping(in)
	}
	p := &piping{in: readInput(in), out: out, keeping: true, noStart: o.NoStart}
	return exit.OnSignal(ctx, func(ctx context.Context) error { return p.run(ctx, s) })
}

// run talks to one daemon after the other until everything is answered. No daemon is started before
// there is something to send.
func (p *piping) run(ctx context.Context, s *server.Server) error {
	if !p.waitForInput(ctx) {
		return p.verdict(ctx, s, unix.Info{})
	}
	for refusals := 0; ; {
		conn, err := s.Lines(ctx, !p.noStart)
		if conn == nil && err == nil {
			err = &exit.Error{Status: exit.Unreachable, Cause: server.ErrNotRunning}
		}
		if err != nil || ctx.Err() != nil {
			return exit.Wrap(cmp.Or(ctx.Err(), err))
		}
		var info unix.Info
		if s.Daemon != nil {
			info, _ = unix.Inspect(s.Daemon.Socket)
		}
		again, err := p.converse(ctx, conn, refusals < maxRefusals)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			return p.broken(err)
		case !again:
			return p.verdict(ctx, s, info)
		case len(p.kept) > 0:
			refusals++
		case !p.waitForInput(ctx): // without input no daemon is needed
			return p.verdict(ctx, s, info)
		default:
			refusals = 0
		}
	}
}

// verdict returns the error of the command when the daemon has closed the connection in order.
func (p *piping) verdict(ctx context.Context, s *server.Server, info unix.Info) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err := p.complete(ctx, s.Daemon, info); err != nil {
		return &exit.Error{Status: exit.Unreachable, Cause: err}
	}
	if p.in.err != nil {
		return &exit.Error{Status: exit.Failure, Cause: fmt.Errorf("can't read the input: %w", p.in.err)}
	}
	if p.answers.errors > 0 {
		return &exit.Error{Status: exit.Failure}
	}
	return nil
}

// An input is standard input, read by a goroutine of its own: a blocking read can't be
// interrupted, and ends with the process.
type input struct {
	chunks chan []byte // each is valid until the next one is taken
	err    error       // the read error that ended it; valid when chunks is closed
}

func readInput(r io.Reader) *input {
	i := &input{chunks: make(chan []byte)}
	go func() {
		defer close(i.chunks)
		// While one buffer is being sent the other is filled.
		buffers := [2][]byte{make([]byte, 64<<10), make([]byte, 64<<10)}
		for filling := 0; ; {
			got, err := r.Read(buffers[filling])
			if got > 0 {
				i.chunks <- buffers[filling][:got]
				filling = 1 - filling
			}
			if err != nil && err != io.EOF {
				i.err = err
			}
			if err != nil {
				return
			}
		}
	}()
	return i
}

// A piping is one conversation with the daemon, which may begin again with the next daemon.
type piping struct {
	in  *input
	out io.Writer

	noStart bool

	requests tally
	ended    bool // everything is sent
	answers  tally
	cut      bool // the last answer is not whole

	heard   atomic.Bool // the daemon has answered something
	written bool        // something was sent to the current daemon
	keeping bool        // sent lines are kept, because the next daemon may have to get them
	kept    []byte
}

// maxKept is how many bytes are kept. A daemon that has not answered anything has not read more
// than some buffers hold, unless the messages want no answers.
const maxKept = 1 << 20

// take counts what is about to be sent, and keeps it while it may be sent again.
func (p *piping) take(chunk []byte) {
	p.requests.add(chunk)
	if p.heard.Load() || len(p.kept)+len(chunk) > maxKept {
		p.keeping, p.kept = false, nil
	}
	if p.keeping {
		p.kept = append(p.kept, chunk...)
	}
}

// waitForInput waits until there is something to send. It returns false at the end of the
// input.
func (p *piping) waitForInput(ctx context.Context) bool {
	if p.ended {
		return false
	}
	select {
	case chunk, more := <-p.in.chunks:
		if p.ended = !more; more {
			p.take(chunk)
		}
		return more
	case <-ctx.Done():
		return false
	}
}

// converse talks to one daemon until it closes the connection. It reports whether the next
// daemon can be asked: this one has begun none of the messages, or was sent none.
func (p *piping) converse(ctx context.Context, conn server.Lines, mayAgain bool) (again bool, err error) {
	// Without a reader of the answers, running queries are cancelled.
	forget := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer forget()
	over, sent := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(sent)
		p.send(conn, over)
	}()
	refusal, err := p.receive(conn)
	close(over)
	_ = conn.Close()
	<-sent
	_, unread := errors.AsType[outputError](err)
	switch {
	case refusal != nil && mayAgain && p.keeping && (!p.written || allAsk(p.kept)):
		return true, nil
	case refusal != nil:
		return false, p.pass(refusal)
	case mayAgain && p.keeping && !p.written && !p.heard.Load() && !p.ended && !unread:
		return true, nil
	}
	return false, err
}

// allAsk reports whether each of the lines wants an answer. A daemon that is shutting down does
// not report whether it has taken the others.
func allAsk(lines []byte) bool {
	for line := range bytes.Lines(lines) {
		var m struct{ Kind, Type, Name string }
		if json.Unmarshal(line, &m) != nil {
			continue // the daemon answers such a line with an error
		}
		kind := m.Kind
		if m.Name != "" { // the older dialect
			kind = m.Type
		}
		if kind != string(message.KindCommand) && kind != string(message.KindQuery) {
			return false
		}
	}
	return true
}

// send sends the kept lines and then the input, and closes its side at the end of the input.
func (p *piping) send(conn server.Lines, over <-chan struct{}) {
	p.written = false
	if !p.write(conn, p.kept) {
		return
	}
	for {
		select {
		case chunk, more := <-p.in.chunks:
			if !more {
				p.requests.end()
				p.ended = true
				_ = conn.CloseWrite() // if it fails, the other side ends as well
				return
			}
			p.take(chunk)
			if !p.write(conn, chunk) {
				return
			}
		case <-over:
			return
		}
	}
}

// write reports whether a chunk was sent whole. If not, the daemon has gone, and receive reports
// that.
func (p *piping) write(conn server.Lines, chunk []byte) bool {
	n, err := conn.Write(chunk)
	p.written = p.written || n > 0
	return err == nil
}

// An outputError is the error of a write to standard output.
type outputError struct{ error }

func (e outputError) Unwrap() error { return e.error }

// refusalHead begins the line with which a daemon closes a connection early.
const refusalHead = `{"kind":"error","type":"` + string(transport.Disconnected) + `"`

// receive copies the answers to the output, at once, until the daemon closes the connection. If
// the first line is a refusal because the daemon is shutting down, it is returned, and not
// written.
func (p *piping) receive(conn server.Lines) (refusal []byte, err error) {
	buf := make([]byte, 64<<10)
	var first []byte // the beginning of the output, while it may be a refusal
	for undecided := true; ; {
		n, err := conn.Read(buf)
		came := buf[:n]
		if undecided {
			first = append(first, came...)
			line, _, whole := bytes.Cut(first, []byte("\n"))
			begun := len(first) < len(refusalHead) && strings.HasPrefix(refusalHead, string(first)) || !whole && bytes.HasPrefix(first, []byte(refusalHead))
			if whole && stopping(line) {
				return first, nil
			}
			if begun && err == nil {
				continue
			}
			came, first, undecided = first, nil, false
		}
		if len(came) > 0 {
			if err := p.pass(came); err != nil {
				return nil, err
			}
		}
		if err == io.EOF {
			p.cut = p.answers.n > 0
			p.answers.end()
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

// stopping reports whether a line is the refusal of a daemon that is shutting down, and has begun
// none of the messages.
func stopping(line []byte) bool {
	m, err := message.Decode(line)
	if err != nil {
		return false
	}
	reason, _ := unix.Disconnection(m)
	return errors.Is(reason, message.ErrServerStopping)
}

// pass writes answers to the output.
func (p *piping) pass(came []byte) error {
	p.heard.Store(true)
	p.answers.add(came)
	if _, err := p.out.Write(came); err != nil {
		return outputError{err}
	}
	return nil
}

// broken returns the error of the command if either side of the conversation fails.
func (p *piping) broken(err error) error {
	failure, ok := errors.AsType[outputError](err)
	switch {
	case !ok && p.answers.disconnected:
		return &exit.Error{Status: exit.Unreachable, Cause: errDisconnected}
	case !ok:
		return &exit.Error{Status: exit.Unreachable, Cause: fmt.Errorf("the daemon went away before everything was answered (%w); see kernos status and its log", err)}
	case !errors.Is(err, syscall.EPIPE):
		return &exit.Error{Status: exit.Failure, Cause: fmt.Errorf("can't write answers: %w", failure.error)}
	case p.answers.errors > 0:
		return &exit.Error{Status: exit.Failure}
	}
	return nil // kernos pipe | head -1
}

var errDisconnected = errors.New("the daemon has closed the connection; its last message says why")

// complete returns an error if not every message is answered. The daemon closes a connection
// in order only if all are. On its socket a daemon that dies leaves the same end behind, so if there are
// fewer answers than there could be, the daemon must show that it is still running. HTTP, which is how a server
// elsewhere is reached, distinguishes the two ends, and d is nil.
func (p *piping) complete(ctx context.Context, d *server.Daemon, info unix.Info) error {
	if p.cut {
		return errors.New("the daemon went away in the middle of an answer: the last line is not whole")
	}
	if p.answers.disconnected {
		return errDisconnected
	}
	if !p.ended {
		return errors.New("the daemon went away before the input had ended")
	}
	if d == nil || p.answers.outcomes >= p.requests.asking || lives(ctx, d, info) {
		return nil
	}
	return fmt.Errorf("the daemon (process %d) went away before everything was answered: %s for %s", info.PID,
		terminal.Count(p.answers.outcomes, "answer came", "answers came"), terminal.Count(p.requests.asking, "message", "messages"))
}

// lives reports whether this daemon answers. That its lock is held is not enough: a process that
// dies closes its files one by one.
func lives(ctx context.Context, d *server.Daemon, info unix.Info) bool {
	ctx, cancel := context.WithTimeout(ctx, server.StartTime())
	defer cancel()
	now, err := d.Status(ctx)
	if err != nil {
		_, said := errors.AsType[*message.Error](err) // such as that it has too many connections
		return said && !errors.Is(err, message.ErrServerStopping)
	}
	return info.PID == 0 || now.PID == info.PID // the process is unknown if the lock was deleted
}
