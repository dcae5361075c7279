package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"kernos/cmd/kernos/pipe"
	"kernos/cmd/kernos/server"
	"kernos/cmd/kernos/settings"
	"kernos/daemon"
	"kernos/internal/quantity"
	"kernos/kernel"
	"kernos/transport"
)

func pipeCommand() *cobra.Command {
	var inline, record bool
	var piping pipe.Options
	o := daemon.Options{Limits: daemon.Limits{Timeout: kernel.DefaultTimeout}}
	c := &cobra.Command{
		Use:   "pipe [--inline]",
		Short: "Answer the messages on standard input, one per line",
		Long: `Read messages from standard input, one JSON object per line, and write what answers
them to standard output: for each command and each query one reply or one error,
which names the message it answers in metadata.causation. A line that isn't a message
is answered too; nothing stops the stream.

The daemon answers them, and is started if it is not running (see kernos serve), or
the server of another context does (see kernos context). With --no-start it isn't started,
so that a program which connects again doesn't undo kernos stop. --inline answers them
in this process instead, which then must be the only one that uses the state.

Slow syscalls are answered when they are done; all others in the order in which they
came. The command ends when its input has ended and everything is answered. Its
status is 1 if an error message was among the answers, and 4 if the daemon can't be
reached or goes away before everything is answered.`,
		Example: `  kernos pipe < requests.ndjson > answers.ndjson
  echo '{"kind":"query","type":"Syscall.List","data":{}}' | kernos pipe --lenient | jq .data
  kernos pipe --inline < requests.ndjson > answers.ndjson`,
		Args: noArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			if !inline {
				if err := ofTheKernel(c.Flags()); err != nil {
					return err
				}
				server, err := server.FindServer(contextOf(c), "")
				if err != nil {
					return err
				}
				return pipe.Run(c.Context(), server, piping, c.InOrStdin(), c.OutOrStdout())
			}
			if contextOf(c) != "" && contextOf(c) != server.LocalContext {
				return errors.New("--inline answers in this process, so it doesn't go with --context")
			}
			if piping.NoStart {
				return errors.New("--inline answers in this process, so it doesn't go with --no-start")
			}
			o.Unrecorded = !record
			if err := settings.Complete(c); err != nil {
				return err
			}
			if err := settings.Finish(&o, version); err != nil {
				return err
			}
			return server.Inline(c.Context(), &o, &transport.Options{Lenient: piping.Lenient})
		},
	}
	addContextFlag(c)
	c.Flags().BoolVar(&inline, "inline", false, "answer in this process, without the daemon")
	c.Flags().BoolVar(&piping.NoStart, "no-start", false, "fail if the daemon isn't running, instead of starting it")
	c.Flags().BoolVar(&piping.Lenient, "lenient", false, "give messages without metadata, id or timestamp one")
	c.Flags().BoolVar(&record, "journal", false, "with --inline: record every message, for kernos log, graph, search and replay")
	settings.AddKernelFlags(c, &o)
	c.Flags().Var((*quantity.PositiveDuration)(&o.Limits.Timeout), "timeout", "how long one call may take")
	groups := []settings.Group{{Title: "Flags", Names: []string{"context", "no-start", "inline", "lenient", "journal", "help"}}}
	c.SetUsageFunc(func(c *cobra.Command) error {
		return settings.Usage(c, groups, "With --inline, the settings of the kernel")
	})
	return c
}

// ofTheKernel refuses the flags that configure a kernel, for a pipe that has none in its process.
func ofTheKernel(flags *pflag.FlagSet) (err error) {
	flags.Visit(func(f *pflag.Flag) {
		switch f.Name {
		case "inline", "lenient", "context", "no-start":
		case "journal":
			err = errors.New("--journal goes with --inline only: the daemon records everything anyhow")
		default:
			err = fmt.Errorf("--%s is for the kernel that answers: give it to kernos serve, or answer in this process with --inline", f.Name)
		}
	})
	return err
}
