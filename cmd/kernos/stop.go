package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"kernos/cmd/kernos/exit"
	"kernos/cmd/kernos/request"
	"kernos/message"
	"kernos/transport/unix"
)

func stopCommand() *cobra.Command {
	var timeout time.Duration
	c := &cobra.Command{
		Use:   "stop",
		Short: "Stop the daemon, when it has finished what runs",
		Long: `Ask the daemon to end, and wait until it has: it accepts nothing new, finishes what
runs, writes everything to disk and goes. If none is running there is nothing to do.

A daemon that can't be asked, because it has no place for another connection or its
socket was removed, is sent SIGTERM, which means the same. One that was started with
another XDG_RUNTIME_DIR is found by the lock of its store.`,
		Example: "  kernos stop",
		Args:    noArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			if timeout <= 0 {
				return fmt.Errorf("--timeout must be more than 0, got %v", timeout)
			}
			return interruptible(c, func(ctx context.Context) error {
				a, err := findAddress()
				if err != nil {
					return err
				}
				said, err := a.stop(ctx, timeout)
				if err == nil {
					_, err = fmt.Fprintln(c.OutOrStdout(), said)
				}
				return err
			})
		},
	}
	c.Flags().DurationVar(&timeout, "timeout", 15*time.Second, "how long to wait for its end")
	return c
}

// stop ends the daemon and says what happened.
func (a *address) stop(ctx context.Context, timeout time.Duration) (_ string, err error) {
	waiting, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	daemon, locked := unix.Inspect(a.socket)
	if !locked {
		// The lock may have been swept away under a daemon that runs.
		status, err := askStatus(waiting, a.socket)
		if err != nil && absent(err) {
			if err := a.hidden(); err != nil {
				return "", err
			}
			return "no daemon is running", nil
		}
		if err != nil {
			return "", &exit.Error{Status: exit.Unreachable, Cause: err}
		}
		daemon.PID = status.PID
	}
	wait := waits(waiting)
	begun, how := false, ""
	for {
		if !begun {
			begun, how, err = a.end(waiting, daemon.PID)
		}
		if gone(a.socket, daemon.PID, locked) {
			return fmt.Sprintf("the daemon (process %d) has stopped%s", daemon.PID, how), nil
		}
		if err != nil && waiting.Err() == nil {
			return "", err
		}
		if !wait() {
			if ctx.Err() != nil {
				return "", ctx.Err()
			}
			return "", fmt.Errorf("the daemon (process %d) has not stopped within %v; it may be finishing what runs: kernos stop waits once more, kill %d insists", daemon.PID, timeout, daemon.PID)
		}
	}
}

// gone reports whether a daemon has ended: another has its lock, or nobody has. Of one whose
// lock was swept away, the system knows.
func gone(socket string, pid int, locked bool) bool {
	if locked {
		now, running := unix.Inspect(socket)
		return !running || now.PID != pid
	}
	if errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
		return true
	}
	// One that nobody has buried yet is no less dead. Systems other than Linux don't say so.
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && bytes.HasPrefix(stat[bytes.LastIndexByte(stat, ')')+1:], []byte(" Z"))
}

// end makes this daemon end: it asks it to or, if it can't be asked, tells it by a signal.
// Then it says so. It reports whether the end has begun.
func (a *address) end(ctx context.Context, pid int) (begun bool, how string, err error) {
	err = a.shutDown(ctx)
	reason, unable := errors.AsType[*unasked](err)
	if !unable {
		return err == nil, "", err
	}
	// One that ends says so before its socket is gone, and before it turns anybody away. A
	// signal would cut what it finishes.
	if now, running := unix.Inspect(a.socket); !running || now.PID != pid || now.Stopping {
		return now.Stopping, "", nil
	}
	if err := unix.Terminate(a.socket, pid); err != nil {
		return false, "", &exit.Error{Status: exit.Unreachable, Cause: fmt.Errorf("the daemon can't be asked to end (%w), and can't be told by a signal: %w", reason.cause, err)}
	}
	return true, fmt.Sprintf("; it could not be asked (%v), and was sent SIGTERM", reason.cause), nil
}

// An unasked is the error of a daemon that can't be asked.
type unasked struct{ cause error }

func (e *unasked) Error() string { return e.cause.Error() }

// shutDown asks the daemon to end. If nobody answers, or the daemon has no place for another
// connection, or is about to end, that is an *unasked.
func (a *address) shutDown(ctx context.Context) error {
	conn, err := new(unix.Dialer).Dial(ctx, a.socket)
	if err != nil {
		if absent(err) || turnedAway(err) {
			return &unasked{err}
		}
		return &exit.Error{Status: exit.Unreachable, Cause: err}
	}
	client := unix.NewClient(conn)
	defer func() { _ = client.Close() }()
	_, err = request.Send(ctx, client.Call, message.KindCommand, "Syscall.Shutdown", struct{}{}, nil)
	if lost, ok := errors.AsType[*unix.Lost](err); ok && (turnedAway(lost) || absent(lost) || errors.Is(lost, io.EOF)) {
		return &unasked{lost}
	}
	return err
}

// turnedAway reports whether an error is the reason for which a daemon serves nobody, or
// nobody else.
func turnedAway(err error) bool {
	e, ok := errors.AsType[*message.Error](err)
	return ok && e.Code == 503
}
