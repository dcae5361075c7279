package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"kernos/message"
	"kernos/transport/unix"
)

func stopCommand() *cobra.Command {
	var timeout time.Duration
	c := &cobra.Command{
		Use:   "stop",
		Short: "Stop the daemon, when it has finished what runs",
		Long: `Ask the daemon to end, and wait until it has: it accepts nothing new, finishes what
runs, writes everything to disk and goes. If none is running there is nothing to do.`,
		Example: "  kernos stop",
		Args:    noArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			if timeout <= 0 {
				return fmt.Errorf("--timeout must be more than 0, got %v", timeout)
			}
			return interruptible(c, func(ctx context.Context) error {
				said, err := stop(ctx, timeout)
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
func stop(ctx context.Context, timeout time.Duration) (string, error) {
	a, err := findAddress()
	if err != nil {
		return "", err
	}
	daemon, running := unix.Inspect(a.socket)
	if !running {
		return "no daemon is running", nil
	}
	waiting, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	wait := waits(waiting)
	asked := false
	for {
		if !asked {
			if asked, err = a.shutDown(waiting); err != nil && waiting.Err() == nil {
				return "", err
			}
		}
		now, running := unix.Inspect(a.socket)
		if !running || now.PID != daemon.PID {
			return fmt.Sprintf("the daemon (process %d) has stopped", daemon.PID), nil
		}
		if !wait() {
			if ctx.Err() != nil {
				return "", ctx.Err()
			}
			return "", fmt.Errorf("the daemon (process %d) has not stopped within %v; it may be finishing what runs: kernos stop waits once more, kill %d insists", daemon.PID, timeout, daemon.PID)
		}
	}
}

// shutDown asks the daemon to end, and reports whether it has said that it will. One that
// ends already, or has too many connections, can't be asked.
func (a *address) shutDown(ctx context.Context) (bool, error) {
	conn, err := new(unix.Dialer).Dial(ctx, a.socket)
	if err != nil {
		if absent(err) {
			return false, nil
		}
		return false, &exitStatus{status: exitUnreachable, cause: err}
	}
	client := unix.NewClient(conn)
	defer func() { _ = client.Close() }()
	_, err = ask(ctx, client.Call, message.KindCommand, "Syscall.Shutdown", struct{}{}, nil)
	if _, lost := errors.AsType[*unix.Lost](err); lost {
		return false, nil
	}
	return err == nil, err
}
