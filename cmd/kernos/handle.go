package main

import (
	"errors"
	"fmt"
	"os/exec"
	"runtime"
	"time"

	"github.com/spf13/cobra"

	"kernos/cmd/kernos/pipe"
	"kernos/cmd/kernos/server"
	"kernos/internal/quantity"
)

// defaultHandleTime is how long a program may take, unless --timeout sets another time. It is the
// time that the kernel gives a call.
const defaultHandleTime = 30 * time.Second

func handleCommand() *cobra.Command {
	flags := pipe.Flags{Timeout: defaultHandleTime}
	parallel := quantity.Count(runtime.NumCPU())
	c := &cobra.Command{
		Use:   "handle TYPE [flags] -- COMMAND [ARGUMENT …]",
		Short: "Serve a syscall with a plain program",
		Long: `Serve a syscall with a program, until interrupted. For each request the command is run
once: the data of the request is on its standard input as one line of JSON, and the JSON
that it prints is the reply.

A value {"kind":"event","type":TYPE,"data":…} that it prints before the reply is an event,
and is sent at once; Syscall.Progressed with {"message":…,"percentage":0.5} shows progress.
A status other than 0 is an error: {"code":422,"message":…} on standard output says which,
otherwise it is a 500 with the end of standard error, which is shown here too. A process
that takes longer than --timeout is killed with all that it started.

The variables KERNOS_REQUEST_TYPE, KERNOS_REQUEST_ID and KERNOS_REQUEST_CORRELATION name the
request. When the daemon restarts, the syscall is registered again. An interrupt lets
running processes finish; a second one kills them. With --context, a server elsewhere
gets the syscall, and the program runs here.`,
		Example: `  kernos handle Text.Upper --kind query --summary 'Write a text in capitals.' -- jq '.text |= ascii_upcase'
  kernos handle Image.Resize --definition resize.json --parallel 2 -- python3 resize.py
  kernos handle Note.Add --input '{"type":"object","required":["text"]}' -- ./add.sh`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) < 2 || c.ArgsLenAtDash() != 1 {
				return errors.New("name the syscall and the program: kernos handle TYPE -- COMMAND [ARGUMENT …]")
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			def, err := flags.Define(args[0], args[1], c.Flags().Changed)
			if err != nil {
				return err
			}
			if _, err := exec.LookPath(args[1]); err != nil {
				return fmt.Errorf("the program can't be run: %w", err)
			}
			server, err := server.FindServer(contextOf(c), "")
			if err != nil {
				return err
			}
			return pipe.Handle(c.Context(), server, def, args[1:], int(parallel), c.ErrOrStderr())
		},
	}
	addContextFlag(c)
	f := c.Flags()
	f.StringVar(&flags.File, "definition", "", "a `FILE` with what Syscall.Register takes, as JSON; the flags below are stronger")
	f.StringVar(&flags.Kind, "kind", "command", "the `KIND`: query if it changes nothing, otherwise command")
	f.StringVar(&flags.Summary, "summary", "", "one `SENTENCE` that says what it does; callers choose by it")
	f.StringVar(&flags.Input, "input", "", "the `SCHEMA` of the request's data: JSON Schema, or @FILE")
	f.StringVar(&flags.Output, "output", "", "the `SCHEMA` of the reply's data: JSON Schema, or @FILE")
	f.Var(&parallel, "parallel", "run at most `N` processes at once; further requests wait")
	f.Var((*quantity.PositiveDuration)(&flags.Timeout), "timeout", "how long a request may take")
	return c
}
