package server

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"time"

	"kernos/capability/lifecycle"
	"kernos/client"
	"kernos/internal/exit"
	"kernos/kernel"
	"kernos/message"
	"kernos/transport"
	"kernos/transport/unix"
)

// Stop ends the server, waits until it has ended, and returns a sentence about what happened.
func (s *Server) Stop(ctx context.Context, timeout time.Duration) (report string, err error) {
	if s.Daemon != nil {
		return s.Daemon.Stop(ctx, timeout)
	}
	k := &Kernel{server: s}
	if err := k.open(ctx); err != nil {
		return "", err
	}
	defer func() { _ = k.Close() }()
	if _, err := Send(ctx, k.Call, message.KindCommand, kernel.ShutdownType, struct{}{}, nil); err != nil {
		return "", err
	}
	err = Retry(ctx, timeout, func(waiting context.Context) (again bool, err error) {
		conn, err := s.dial(waiting)
		_, gone := errors.AsType[*client.Unreachable](err)
		r, refused := errors.AsType[*client.Refused](err)
		switch {
		case err == nil:
			_ = conn.Close()
		case gone, refused && r.Name() != transport.ShuttingDown:
			return false, nil
		}
		return true, fmt.Errorf("the server of context %s has not stopped within %v; it may be finishing what runs: kernos status --context %s shows whether it is there", s.Context, timeout, s.Context)
	})
	return fmt.Sprintf("the server of context %s has stopped", s.Context), err
}

// Stop ends the daemon, and returns a sentence about what happened.
func (d *Daemon) Stop(ctx context.Context, timeout time.Duration) (report string, err error) {
	info, locked := unix.Inspect(d.Socket)
	if !locked && d.Asleep() {
		return "no daemon is running", nil
	}
	if !locked {
		// The lock of a running daemon may have been deleted.
		asking, cancel := context.WithTimeout(ctx, timeout)
		status, err := d.Status(asking)
		cancel()
		switch {
		case err != nil && absent(err):
			return "no daemon is running", d.Unseen()
		case err != nil:
			return "", err
		}
		info.PID = status.PID
	}
	begun, how := false, ""
	err = Retry(ctx, timeout, func(waiting context.Context) (again bool, err error) {
		if !begun {
			begun, how, err = d.end(waiting, info.PID)
		}
		if d.HasEnded(info.PID, locked) {
			return false, nil
		}
		if err != nil && waiting.Err() == nil {
			return false, err
		}
		if !begun {
			return true, d.silent(timeout)
		}
		return true, fmt.Errorf("the daemon (process %d) has not stopped within %v; it may be finishing what runs: kernos stop waits once more, kill %d insists", info.PID, timeout, info.PID)
	})
	if err != nil && ctx.Err() != nil {
		err = ctx.Err()
	}
	return fmt.Sprintf("the daemon (process %d) has stopped%s", info.PID, how), err
}

// HasEnded reports whether a daemon has ended: another process has its lock, or none has. If
// the lock was deleted while the daemon was running, the operating system knows.
func (d *Daemon) HasEnded(pid int, locked bool) bool {
	if locked {
		now, running := unix.Inspect(d.Socket)
		return !running || now.PID != pid
	}
	if errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
		return true
	}
	// A zombie has ended too. Systems other than Linux don't show it.
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && bytes.HasPrefix(stat[bytes.LastIndexByte(stat, ')')+1:], []byte(" Z"))
}

// end asks the daemon to end or, if it can't be asked, sends it a signal, which how reports. It
// reports whether the end has begun.
func (d *Daemon) end(ctx context.Context, pid int) (begun bool, how string, err error) {
	_, reason := d.operate(ctx, message.KindCommand, "Syscall.Shutdown", nil)
	if !unasked(reason) {
		return reason == nil, "", reason
	}
	// A daemon that is shutting down reports that before it refuses connections. A signal would
	// interrupt what it is finishing.
	if now, running := unix.Inspect(d.Socket); !running || now.PID != pid || now.Stopping {
		return now.Stopping, "", nil
	}
	if err := unix.Terminate(d.Socket, pid); err != nil {
		return false, "", unreachable(fmt.Errorf("the daemon can't be asked to end (%w), and can't be sent a signal: %w", reason, err))
	}
	return true, fmt.Sprintf("; it could not be asked (%v), and was sent SIGTERM", reason), nil
}

// unasked reports whether an error means that the daemon can't be asked: it doesn't answer, has no room for another
// connection, or is shutting down.
func unasked(err error) bool {
	_, lost := errors.AsType[*unix.Lost](err)
	turnedAway := errors.Is(err, unix.ErrFull) || errors.Is(err, message.ErrServerStopping)
	return absent(err) || turnedAway || lost && errors.Is(err, io.EOF)
}

// Status asks the daemon for its status. It doesn't wait for a daemon that is starting.
func (d *Daemon) Status(ctx context.Context) (status lifecycle.Status, err error) {
	data, err := d.operate(ctx, message.KindQuery, "Kernel.Status", nil)
	if err != nil {
		return status, err
	}
	return status, json.Unmarshal(data, &status)
}

// operate asks the daemon with lines, for which it has places for its operator: it
// answers Kernel.Status and Syscall.Shutdown there however many connections it has. Nil data is an empty object. The node
// of a cluster answers what is about the node itself.
func (d *Daemon) operate(ctx context.Context, kind message.Kind, t message.Type, data json.RawMessage) (json.RawMessage, error) {
	if data == nil {
		data = json.RawMessage("{}")
	}
	conn, err := new(unix.Dialer).Dial(ctx, d.Socket)
	if err != nil {
		return nil, unreachable(err)
	}
	outcome, err := conn.Ask(ctx, message.Message{Kind: kind, Type: t, Data: data})
	if err != nil {
		return nil, unreachable(err)
	}
	if outcome.Kind != message.KindError {
		return outcome.Data, nil
	}
	e := outcome.Failure()
	return nil, &exit.Error{Status: exit.StatusOf(e.Code), Cause: e}
}
