package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"

	"kernos/capability/lifecycle"
	"kernos/message"
	"kernos/transport/unix"
)

// pipeThrough lets the daemon answer what comes from in.
func pipeThrough(ctx context.Context, lenient bool, in io.Reader, out io.Writer) error {
	a, err := findAddress()
	if err != nil {
		return err
	}
	signal.Ignore(syscall.SIGPIPE) // a reader that goes away is told by the error of the next write
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	conn, err := a.summon(ctx)
	if ctx.Err() != nil {
		return &exitStatus{status: exitInterrupted}
	}
	if err != nil {
		return failed(err)
	}
	// Nobody reads the answers any more: queries that run are cancelled.
	forget := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer forget()
	defer func() { _ = conn.Close() }()
	p := &piping{conn: conn}
	daemon, _ := unix.Inspect(a.socket)
	if lenient {
		if in, err = newStamping(in); err != nil {
			return err
		}
	}
	// A blocking read of standard input can't be given up: it ends with the process.
	go p.send(in)
	err = p.receive(out)
	switch {
	case ctx.Err() != nil:
		return &exitStatus{status: exitInterrupted}
	case err != nil:
		return p.broken(err)
	}
	if err := p.complete(ctx, a.socket, daemon); err != nil {
		return &exitStatus{status: exitUnreachable, cause: err}
	}
	if p.inputErr != nil {
		return &exitStatus{status: exitError, cause: fmt.Errorf("can't read the input: %w", p.inputErr)}
	}
	if p.answers.errors > 0 {
		return &exitStatus{status: exitError}
	}
	return nil
}

// A piping is one conversation with the daemon.
type piping struct {
	conn *unix.Conn

	ended    atomic.Bool // everything is sent; what follows is valid from then on
	requests tally
	inputErr error

	answers tally
}

// send sends what comes from in, and then says that this was all.
func (p *piping) send(in io.Reader) {
	buf := make([]byte, 64<<10)
	for {
		n, err := in.Read(buf)
		p.requests.add(buf[:n])
		if _, writeErr := p.conn.Write(buf[:n]); writeErr != nil {
			return // the daemon has gone, and the other side says so
		}
		if err == nil {
			continue
		}
		p.requests.end()
		if err != io.EOF {
			p.inputErr = err
		}
		p.ended.Store(true)
		_ = p.conn.CloseWrite() // if it fails, the other side ends as well
		return
	}
}

// An outputError is that of whoever reads the answers.
type outputError struct{ error }

func (e outputError) Unwrap() error { return e.error }

// receive writes what the daemon says to out, at once, until the daemon has said it all.
func (p *piping) receive(out io.Writer) error {
	buf := make([]byte, 64<<10)
	for {
		n, err := p.conn.Read(buf)
		p.answers.add(buf[:n])
		if n > 0 {
			if _, err := out.Write(buf[:n]); err != nil {
				return outputError{err}
			}
		}
		if err == io.EOF {
			p.answers.end()
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// broken is what the command says if a side of the conversation fails.
func (p *piping) broken(err error) error {
	failure, ok := errors.AsType[outputError](err)
	switch {
	case !ok && p.answers.disconnected:
		return &exitStatus{status: exitUnreachable, cause: errDisconnected}
	case !ok:
		return &exitStatus{status: exitUnreachable, cause: fmt.Errorf("the daemon went away before everything was answered (%w); kernos status and its log say more", err)}
	case !errors.Is(err, syscall.EPIPE):
		return &exitStatus{status: exitError, cause: fmt.Errorf("can't write answers: %w", failure.error)}
	case p.answers.errors > 0:
		return &exitStatus{status: exitError}
	}
	return nil // kernos pipe | head -1
}

var errDisconnected = errors.New("the daemon has closed the connection; its last message says why")

// complete returns an error if not everything is answered. The daemon closes a connection
// in an orderly way only if it is. One that dies leaves the same end behind, so if there
// are fewer answers than there may be, it must show that it lives.
func (p *piping) complete(ctx context.Context, socket string, daemon unix.Info) error {
	if p.answers.disconnected {
		return errDisconnected
	}
	if !p.ended.Load() {
		return errors.New("the daemon went away before the input had ended")
	}
	if p.answers.outcomes >= p.requests.asking || lives(ctx, socket, daemon) {
		return nil
	}
	return fmt.Errorf("the daemon (process %d) went away before everything was answered: %s for %s", daemon.PID,
		counted(p.answers.outcomes, "answer came", "answers came"), counted(p.requests.asking, "message", "messages"))
}

// lives reports whether this daemon answers. That somebody holds the lock is not enough:
// a process that dies closes its files one by one.
func lives(ctx context.Context, socket string, daemon unix.Info) bool {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	conn, err := new(unix.Dialer).Dial(ctx, socket)
	if err != nil {
		return false
	}
	client := unix.NewClient(conn)
	defer func() { _ = client.Close() }()
	data, err := ask(ctx, client.Call, message.KindQuery, "Kernel.Status", struct{}{}, nil)
	if err != nil {
		_, said := errors.AsType[*message.Error](err) // such as that it has too many connections
		return said
	}
	var now lifecycle.Status
	return json.Unmarshal(data, &now) == nil && now.PID == daemon.PID
}
