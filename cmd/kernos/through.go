package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"sync/atomic"
	"syscall"

	"kernos/cmd/kernos/connect"
	"kernos/cmd/kernos/exit"
	"kernos/cmd/kernos/terminal"
	"kernos/message"
	"kernos/transport"
	"kernos/transport/unix"
)

// maxRefusals is how many daemons in a row may be about to end.
const maxRefusals = 5

// pipeThrough lets the daemon answer what comes from in. One that is about to end is waited
// for, and the next one is asked, as long as it is certain that nothing runs twice.
func pipeThrough(ctx context.Context, lenient bool, in io.Reader, out io.Writer) error {
	d, err := connect.FindDaemon()
	if err != nil {
		return err
	}
	signal.Ignore(syscall.SIGPIPE) // a reader that goes away is told by the error of the next write
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	if lenient {
		if in, err = newStamping(in); err != nil {
			return err
		}
	}
	p := &piping{in: readInput(in), out: out, keeping: true}
	for refusals := 0; ; {
		conn, err := d.ConnectOrStart(ctx)
		if ctx.Err() != nil {
			return &exit.Error{Status: exit.Interrupted}
		}
		if err != nil {
			return exit.Wrap(err)
		}
		info, _ := unix.Inspect(d.Socket)
		again, err := p.converse(ctx, conn, refusals < maxRefusals)
		switch {
		case ctx.Err() != nil:
			return &exit.Error{Status: exit.Interrupted}
		case err != nil:
			return p.broken(err)
		case !again:
			return p.verdict(ctx, d, info)
		case len(p.kept) > 0:
			refusals++
		case !p.waitForInput(ctx): // nobody wants a daemon that is not asked anything
			return p.verdict(ctx, d, info)
		default:
			refusals = 0
		}
	}
}

// verdict is what the command leaves with when the daemon has said it all.
func (p *piping) verdict(ctx context.Context, d *connect.Daemon, info unix.Info) error {
	if ctx.Err() != nil {
		return &exit.Error{Status: exit.Interrupted}
	}
	if err := p.complete(ctx, d, info); err != nil {
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

// An input is standard input, read by a goroutine of its own: a blocking read can't be given
// up, and ends with the process.
type input struct {
	chunks chan []byte // each is valid until the next is taken
	err    error       // why it ended, if that was not its end; valid when chunks is closed
}

func readInput(r io.Reader) *input {
	i := &input{chunks: make(chan []byte)}
	go func() {
		defer close(i.chunks)
		// While one is being sent the other is filled.
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

// A piping is one conversation with the daemon, which may begin anew with another.
type piping struct {
	in  *input
	out io.Writer

	requests tally
	ended    bool // everything is sent
	answers  tally
	cut      bool // the last of them is not whole

	heard   atomic.Bool // something was answered
	written bool        // something was sent to the daemon that is talked to
	keeping bool        // what is sent is kept, for it may have to be sent to another daemon
	kept    []byte
}

// maxKept is how much is kept. A daemon that has not said anything has not read more than
// some buffers hold, unless it is asked for no answers.
const maxKept = 1 << 20

// take counts what is about to be sent, and keeps it while that makes sense.
func (p *piping) take(chunk []byte) {
	p.requests.add(chunk)
	if p.heard.Load() || len(p.kept)+len(chunk) > maxKept {
		p.keeping, p.kept = false, nil
	}
	if p.keeping {
		p.kept = append(p.kept, chunk...)
	}
}

// waitForInput returns when there is something to send, and false if there is nothing any
// more.
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

// A wire is a connection to a daemon.
type wire interface {
	io.ReadWriteCloser
	CloseWrite() error
}

// converse talks to one daemon until it has said it all. Again says that it has done nothing
// of what it was sent, or was sent nothing, and that another one can be asked.
func (p *piping) converse(ctx context.Context, conn wire, mayAgain bool) (again bool, err error) {
	// If nobody reads the answers any more, queries that run are cancelled.
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

// allAsk reports whether each of the lines is owed an answer. Of those that are not, a daemon
// that is about to end does not say whether it has taken them.
func allAsk(lines []byte) bool {
	for line := range bytes.Lines(lines) {
		var m struct{ Kind, Type, Name string }
		if json.Unmarshal(line, &m) != nil {
			continue // it is answered with an error
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

// send sends what was kept and what comes, and then says that this was all.
func (p *piping) send(conn wire, over <-chan struct{}) {
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

// write reports whether something was sent as a whole. If not, the daemon has gone, and the
// other side says so.
func (p *piping) write(conn wire, chunk []byte) bool {
	n, err := conn.Write(chunk)
	p.written = p.written || n > 0
	return err == nil
}

// An outputError is that of whoever reads the answers.
type outputError struct{ error }

func (e outputError) Unwrap() error { return e.error }

// refusalHead begins the line with which a daemon closes a connection.
const refusalHead = `{"kind":"error","type":"` + string(transport.Disconnected) + `"`

// receive writes what the daemon says to the output, at once, until the daemon has said it
// all. If the first that it says is that it is about to end, that is returned, and not
// written.
func (p *piping) receive(conn wire) (refusal []byte, err error) {
	buf := make([]byte, 64<<10)
	var first []byte // as long as it may be a refusal
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

// stopping reports whether a line is that of a daemon which is about to end, and has begun
// nothing of what it was sent.
func stopping(line []byte) bool {
	m, err := message.Decode(line)
	if err != nil {
		return false
	}
	reason, _ := unix.Disconnection(m)
	return errors.Is(reason, unix.ErrStopping)
}

// pass writes what the daemon has said to the output.
func (p *piping) pass(came []byte) error {
	p.heard.Store(true)
	p.answers.add(came)
	if _, err := p.out.Write(came); err != nil {
		return outputError{err}
	}
	return nil
}

// broken is what the command says if a side of the conversation fails.
func (p *piping) broken(err error) error {
	failure, ok := errors.AsType[outputError](err)
	switch {
	case !ok && p.answers.disconnected:
		return &exit.Error{Status: exit.Unreachable, Cause: errDisconnected}
	case !ok:
		return &exit.Error{Status: exit.Unreachable, Cause: fmt.Errorf("the daemon went away before everything was answered (%w); kernos status and its log say more", err)}
	case !errors.Is(err, syscall.EPIPE):
		return &exit.Error{Status: exit.Failure, Cause: fmt.Errorf("can't write answers: %w", failure.error)}
	case p.answers.errors > 0:
		return &exit.Error{Status: exit.Failure}
	}
	return nil // kernos pipe | head -1
}

var errDisconnected = errors.New("the daemon has closed the connection; its last message says why")

// complete returns an error if not everything is answered. The daemon closes a connection
// in an orderly way only if it is. One that dies leaves the same end behind, so if there
// are fewer answers than there may be, it must show that it lives.
func (p *piping) complete(ctx context.Context, d *connect.Daemon, info unix.Info) error {
	if p.cut {
		return errors.New("the daemon went away in the middle of an answer: the last line is not whole")
	}
	if p.answers.disconnected {
		return errDisconnected
	}
	if !p.ended {
		return errors.New("the daemon went away before the input had ended")
	}
	if p.answers.outcomes >= p.requests.asking || lives(ctx, d, info) {
		return nil
	}
	return fmt.Errorf("the daemon (process %d) went away before everything was answered: %s for %s", info.PID,
		terminal.Count(p.answers.outcomes, "answer came", "answers came"), terminal.Count(p.requests.asking, "message", "messages"))
}

// lives reports whether this daemon answers. That somebody holds the lock is not enough:
// a process that dies closes its files one by one.
func lives(ctx context.Context, d *connect.Daemon, info unix.Info) bool {
	ctx, cancel := context.WithTimeout(ctx, connect.StartTime)
	defer cancel()
	now, err := d.Status(ctx)
	if err != nil {
		_, said := errors.AsType[*message.Error](err) // such as that it has too many connections
		return said && !errors.Is(err, unix.ErrStopping)
	}
	return info.PID == 0 || now.PID == info.PID // nobody knows its number if its lock was swept away
}
