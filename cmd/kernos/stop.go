package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"kernos/cmd/kernos/backup"
	"kernos/cmd/kernos/server"
	"kernos/cmd/kernos/settings"
	"kernos/internal/exit"
	"kernos/internal/quantity"
)

func stopCommand() *cobra.Command {
	timeout := 15 * time.Second
	c := &cobra.Command{
		Use:   "stop",
		Short: "Stop the daemon, when it has finished what runs",
		Long: `Ask the daemon to end, and wait until it has: it accepts nothing new, finishes what
runs, writes everything to disk and goes. If none is running there is nothing to do.

A daemon that can't be asked, because it has no place for another connection or its
socket was removed, is sent SIGTERM, which means the same. One that was started with
another XDG_RUNTIME_DIR is found by the lock of its store.

The server of another context is asked with Syscall.Shutdown, which its token must allow.`,
		Example: "  kernos stop\n  kernos stop --context office",
		Args:    noArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			return exit.OnSignal(c.Context(), func(ctx context.Context) error {
				server, err := server.FindServer(contextOf(c), "")
				if err != nil {
					return err
				}
				said, err := server.Stop(ctx, timeout)
				if err == nil {
					_, err = fmt.Fprintln(c.OutOrStdout(), said)
				}
				return exit.Wrap(err)
			})
		},
	}
	addContextFlag(c)
	c.Flags().Var((*quantity.PositiveDuration)(&timeout), "timeout", "how long to wait for its end: a `TIME` such as 1m")
	return c
}

func restartCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "restart",
		Short: "Stop the daemon, and start it again with its settings",
		Long: `End the daemon as kernos stop does, and start it again in the background, with the flags and
variables that it was started with. If none is running, one is started, as every call does.`,
		Args: noArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			home, err := settings.UsableHome()
			if err != nil {
				return err
			}
			return exit.OnSignal(c.Context(), func(ctx context.Context) error {
				return exit.Wrap(backup.Restart(ctx, home, c.OutOrStdout()))
			})
		},
	}
}
