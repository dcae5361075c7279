package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"kernos/cmd/kernos/doctor"
	"kernos/cmd/kernos/terminal"
	"kernos/internal/exit"
)

func doctorCommand() *cobra.Command {
	c := prints(&cobra.Command{
		Use:   "doctor [URL]",
		Short: "Find out what is wrong between here and a server",
		Long: `Check a server layer by layer, from the socket up to the rules of the protocol, and advise
what to do about what is wrong: the home directory, the socket or the TCP address, HTTP,
the WebSocket, a call, the service hash, the schemas, the sequence of the items of a
stream, the store, the clock and the disk. Without a URL, check the server of the current
context, which is the daemon of this user unless you choose another. Any server that
speaks this protocol can be checked. Nothing is started, and nothing is changed.

The exit status is 0 if everything is fine, 1 if something is wrong, 3 if the server
doesn't let you in, 4 if it can't be reached.`,
		Example: `  kernos doctor
  kernos doctor ws://127.0.0.1:7420/
  kernos doctor --context office --jq '.[] | select(.ok | not)'`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) > 1 || len(args) == 1 && contextOf(c) != "" {
				return fmt.Errorf("name one server: a URL, or --context NAME; see kernos doctor --help")
			}
			return nil
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}, "text", func(c *cobra.Command, args []string, s *terminal.Screen, o terminal.Output) error {
		return exit.OnSignal(c.Context(), func(ctx context.Context) error {
			return doctor.Run(ctx, contextOf(c), strings.Join(args, ""), s, o.Writer(ctx, s, false))
		})
	})
	addContextFlag(c)
	return c
}
