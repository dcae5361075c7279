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

// Where no daemon is running, inProcess opens a kernel in this process, started starts a daemon, readOnly opens nothing
// and answers from definitions, and alreadyRuns is an error.
var (
	inProcess   = server.Options{InProcess: openInProcess}
	started     = server.Options{Start: true}
	readOnly    = server.Options{ReadOnly: true}
	alreadyRuns = server.Options{}
)

func openInProcess() (*daemon.Daemon, error) { return server.OpenInProcess(version) }

// contextOf returns the context that a command was given, or "".
func contextOf(c *cobra.Command) string {
	if f := c.Flags().Lookup("context"); f != nil {
		return f.Value.String()
	}
	return ""
}

// opener opens the kernel of the context that a command was given.
func opener(c *cobra.Command, o server.Options) server.Opener {
	return func(ctx context.Context) (server.Caller, func() error, error) {
		o.Context = contextOf(c)
		k, err := server.Open(ctx, o)
		if err != nil {
			return nil, nil, err
		}
		return k.Call, k.Close, nil
	}
}

// completes completes a word with known values, which it asks of a kernel that is running.
func completes(values line.Known) cobra.CompletionFunc {
	return func(c *cobra.Command, _ []string, word string) ([]string, cobra.ShellCompDirective) {
		return line.CompleteKnown(values, opener(c, alreadyRuns), word), cobra.ShellCompDirectiveNoFileComp
	}
}

// completesFirst completes the first argument of a command with known values.
func completesFirst(values line.Known) cobra.CompletionFunc {
	return line.FirstArgument(completes(values))
}

// views completes a command that makes calls and shows what comes back; see [line.Command] for the forms.
func views(c *cobra.Command, open server.Options, run func(context.Context, *line.View) error, forms ...string) *cobra.Command {
	(&line.Command{Forms: forms, Open: open, Run: run}).AddTo(c)
	if check := c.Args; check != nil {
		c.Args = func(c *cobra.Command, args []string) error {
			err := check(c, args)
			if _, ok := errors.AsType[missing](err); ok { // as a parameter would be
				return &exit.Error{Status: exit.Invalid, Cause: err}
			}
			return err
		}
	}
	return c
}

// shows makes a function that decodes the reply of a syscall and shows it.
func shows[T any](v *line.View, t message.Type, f func(*T, *terminal.Screen) error) func(json.RawMessage) error {
	return func(data json.RawMessage) error {
		reply := new(T)
		if err := server.Decode(t, data, reply); err != nil {
			return err
		}
		return f(reply, v.Screen)
	}
}

// prints completes a command that asks no kernel, and writes a value in the form for people or as JSON.
func prints(c *cobra.Command, form string, run func(c *cobra.Command, args []string, s *terminal.Screen, o terminal.Output) error) *cobra.Command {
	o := new(terminal.Output)
	o.AddTo(c, form, "json")
	o.AddFilter(c.Flags())
	c.RunE = func(c *cobra.Command, args []string) error {
		if err := o.Check(); err != nil {
			return err
		}
		return run(c, args, terminal.NewScreen(c.OutOrStdout(), c.ErrOrStderr()), *o)
	}
	return c
}

// writeValue writes a value as the flags choose, or as show does for people.
func writeValue(ctx context.Context, s *terminal.Screen, o terminal.Output, value any, show func() error) error {
	write := o.Writer(ctx, s, false)
	if write == nil {
		return show()
	}
	data, err := json.Marshal(value)
	if err != nil {
		return exit.Wrap(err)
	}
	return write(data)
}

// arguments wants from least to most arguments; the text names which.
func arguments(least, most int, text string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		switch {
		case len(args) < least:
			return missing{errors.New(text)}
		case len(args) > most:
			return fmt.Errorf("%d arguments are too many: %s", len(args), text)
		}
		return nil
	}
}

// missing is the error of an argument that is missing.
type missing struct{ error }

// one wants one argument; the text names which.
func one(text string) cobra.PositionalArgs { return arguments(1, 1, text) }

// oneListed wants one argument: the name of a thing that the command list beside this one shows.
func oneListed(what string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		parent := c.Parent().CommandPath()
		return one(fmt.Sprintf("name the %s: %s %s; %s list shows them", what, parent, c.Use, parent))(c, args)
	}
}
