package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"kernos/cmd/kernos/line"
	"kernos/cmd/kernos/server"
	"kernos/cmd/kernos/terminal"
	"kernos/daemon"
	"kernos/internal/exit"
	"kernos/message"
)

// A caller sends requests to a kernel.
type caller = server.Caller

// An opener finds a kernel to call, and returns the function that closes it.
type opener = server.Opener

// kernels are the kernels that commands can ask: those of the context that the flag --context names, which is
// one for all commands. Where no daemon is running, any opens a kernel in this process, started starts a daemon,
// readOnly opens nothing and answers from definitions, and running returns an error.
type kernels struct {
	context                         string
	any, started, readOnly, running opener

	lacks string // what the kernel that was opened last doesn't list; see [server.Kernel.Lacks]
}

func newKernels() *kernels {
	k := new(kernels)
	open := func(o server.Options) opener {
		return func(ctx context.Context) (caller, func() error, error) {
			o.Context = k.context
			opened, err := server.Open(ctx, o)
			if err != nil {
				return nil, nil, err
			}
			k.lacks = opened.Lacks()
			return opened.Call, opened.Close, nil
		}
	}
	k.any, k.started = open(server.Options{InProcess: openInProcess}), open(server.Options{Start: true})
	k.readOnly, k.running = open(server.Options{ReadOnly: true}), open(server.Options{})
	return k
}

func openInProcess() (*daemon.Daemon, error) { return server.OpenInProcess(version) }

// completes completes a word with known values, which it asks of a kernel that is running.
func (k *kernels) completes(values line.Known) cobra.CompletionFunc {
	return func(c *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
		return line.CompleteKnown(values, k.running, word), cobra.ShellCompDirectiveNoFileComp
	}
}

// completesFirst completes the first argument of a command with known values.
func (k *kernels) completesFirst(values line.Known) cobra.CompletionFunc {
	return line.FirstArgument(k.completes(values))
}

// asking runs a command that asks a kernel. A signal cancels its requests.
func asking(c *cobra.Command, open opener, f func(context.Context, caller, *terminal.Screen) error) error {
	return exit.OnSignal(c.Context(), func(ctx context.Context) error {
		call, done, err := open(ctx)
		if err != nil {
			return exit.Wrap(err)
		}
		err = f(ctx, call, terminal.NewScreen(c.OutOrStdout(), c.ErrOrStderr()))
		closeErr := done()
		if err != nil {
			return err
		}
		return exit.Wrap(closeErr)
	})
}

// runs completes a command that asks a kernel and writes its output itself.
func (k *kernels) runs(c *cobra.Command, open opener, run func(ctx context.Context, call caller, s *terminal.Screen, args []string) error) *cobra.Command {
	addContextFlag(c, &k.context)
	c.RunE = func(c *cobra.Command, args []string) error {
		return asking(c, open, func(ctx context.Context, call caller, s *terminal.Screen) error { return run(ctx, call, s, args) })
	}
	return c
}

// An answer is where a command gets what it was asked for, and how it writes that: with the flags -o, --json and
// --jq. A command that asks no kernel has no call.
type answer struct {
	terminal.Output
	call   caller
	screen *terminal.Screen
	args   []string     // arguments of the command
	asked  message.Type // type of the request that is answered
}

// answers completes a command that writes its answer in the form for people, which has this name, or as JSON.
func answers(c *cobra.Command, form string, run func(c *cobra.Command, a *answer) error) *cobra.Command {
	a := new(answer)
	a.AddTo(c, form, "json")
	a.AddFilter(c.Flags())
	c.RunE = func(c *cobra.Command, args []string) error {
		if err := a.Check(); err != nil {
			return err
		}
		a.screen, a.args = terminal.NewScreen(c.OutOrStdout(), c.ErrOrStderr()), args
		return run(c, a)
	}
	return c
}

// asks completes a command that asks a kernel for its answer.
func (k *kernels) asks(c *cobra.Command, open opener, form string, run func(ctx context.Context, a *answer) error) *cobra.Command {
	addContextFlag(c, &k.context)
	return answers(c, form, func(c *cobra.Command, a *answer) error {
		return asking(c, open, func(ctx context.Context, call caller, _ *terminal.Screen) error {
			a.call = call
			return run(ctx, a)
		})
	})
}

// lists completes a command that only reads what a kernel serves. If the answer is a list, or there is none, what
// is missing in it is noted.
func (k *kernels) lists(c *cobra.Command, form string, run func(ctx context.Context, a *answer) (listed bool, err error)) *cobra.Command {
	return k.asks(c, k.readOnly, form, func(ctx context.Context, a *answer) error {
		listed, err := run(ctx, a)
		if k.lacks != "" && (listed || err != nil) {
			a.screen.Note("%s", k.lacks)
		}
		return err
	})
}

// A show writes the data of a reply for people.
type show = func(*answer, json.RawMessage) error

// sends completes a command that sends one request and writes its reply: as JSON, or as show does. A command
// whose help text is its summary gets the rest of it.
func (k *kernels) sends(c *cobra.Command, form string, t message.Type, input func(args []string) any, show show) *cobra.Command {
	if c.Long == "" {
		c.Long = fmt.Sprintf("%s.\n\n--json prints what %s replies.", c.Short, t)
	}
	a := &answer{asked: t}
	one := &line.Command{Type: t, Form: form, Open: server.Options{InProcess: openInProcess}}
	one.Show = func(data json.RawMessage, s *terminal.Screen) error {
		a.screen = s
		return show(a, data)
	}
	one.AddTo(c)
	completeContext(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		a.args = args
		params, err := json.Marshal(input(args))
		if err != nil {
			return exit.Wrap(err)
		}
		return one.Run(c, params)
	}
	return c
}

// send sends a request and writes its reply.
func (a *answer) send(ctx context.Context, kind message.Kind, t message.Type, input any, show show) error {
	a.asked = t
	data, err := server.Send(ctx, a.call, kind, t, input, nil)
	if err != nil {
		return err
	}
	return a.write(ctx, data, show)
}

// named returns the input of a request that names what it is about, which is the only argument of the command.
func named(args []string) any { return map[string]string{"name": args[0]} }

// nothing returns the input of a request without parameters.
func nothing([]string) any { return struct{}{} }

// shows makes a function that decodes a reply and shows it.
func shows[T any](f func(*T, *terminal.Screen) error) show {
	return func(a *answer, data json.RawMessage) error {
		reply := new(T)
		if err := server.Decode(a.asked, data, reply); err != nil {
			return err
		}
		return f(reply, a.screen)
	}
}

// notes makes a function that only notes that a request has succeeded. The format takes the argument of the command.
func notes(format string) show {
	return func(a *answer, _ json.RawMessage) error {
		a.screen.Note(format, a.args[0])
		return nil
	}
}

// write writes data as JSON, or as show does.
func (a *answer) write(ctx context.Context, data json.RawMessage, show show) error {
	if print := a.Writer(ctx, a.screen, false); print != nil {
		return print(data)
	}
	return show(a, data)
}

// writeValue writes a value as JSON, or as show does.
func (a *answer) writeValue(ctx context.Context, value any, show func() error) error {
	data, err := json.Marshal(value)
	if err != nil {
		return exit.Wrap(err)
	}
	return a.write(ctx, data, func(*answer, json.RawMessage) error { return show() })
}

// arguments wants from least to most arguments; the text names which.
func arguments(least, most int, text string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		switch {
		case len(args) < least:
			return errors.New(text)
		case len(args) > most:
			return fmt.Errorf("%d arguments are too many: %s", len(args), text)
		}
		return nil
	}
}

// one wants one argument; the text names which.
func one(text string) cobra.PositionalArgs { return arguments(1, 1, text) }

// oneListed wants one argument: the name of a thing that the command list beside this one shows.
func oneListed(what string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		parent := c.Parent().CommandPath()
		return one(fmt.Sprintf("name the %s: %s %s; %s list shows them", what, parent, c.Use, parent))(c, args)
	}
}
