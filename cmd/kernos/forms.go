package main

import (
	"context"
	"encoding/json"

	"github.com/spf13/cobra"

	"kernos/client"
	"kernos/cmd/kernos/output"
	"kernos/cmd/kernos/request"
	"kernos/cmd/kernos/terminal"
	"kernos/message"
)

// forms are the flags that choose how a command writes what it was answered with: -o, --json
// and --jq.
type forms struct{ output.Options }

// addForms gives a command the flags. The first form is the one for people.
func addForms(c *cobra.Command, names ...string) *forms {
	f := new(forms)
	f.AddTo(c, names...)
	f.AddFilter(c.Flags())
	return f
}

// An answer is where a command gets what it was asked for, and how it writes that.
type answer struct {
	*forms
	call   caller
	screen *terminal.Screen
}

// asks completes a command that asks a kernel, and writes what it was answered with in the form for
// people, which has this name, or as JSON.
func asks(c *cobra.Command, open opener, form string, run func(ctx context.Context, a *answer, args []string) error) *cobra.Command {
	f := addForms(c, form, "json")
	c.RunE = func(c *cobra.Command, args []string) error {
		if err := f.check(); err != nil {
			return err
		}
		return asking(c, open, func(ctx context.Context, call caller, s *terminal.Screen) error {
			return run(ctx, &answer{f, call, s}, args)
		})
	}
	return c
}

// send sends a request and writes the reply: in the form that the flags choose, or as show does.
func (a *answer) send(ctx context.Context, kind message.Kind, t message.Type, input any, show func(*terminal.Screen, json.RawMessage) error) error {
	data, err := request.Send(ctx, a.call, kind, t, input, nil)
	if err != nil {
		return err
	}
	return a.write(ctx, data, show)
}

// write writes a reply.
func (a *answer) write(ctx context.Context, data json.RawMessage, show func(*terminal.Screen, json.RawMessage) error) error {
	if print := a.printer(ctx, a.screen, false); print != nil {
		return print(data)
	}
	return show(a.screen, data)
}

// check reports a filter that can't be read.
func (f *forms) check() error {
	_, err := output.NewPrinter(new(terminal.Screen), f.Options)
	return err
}

// printer returns what writes JSON, or nil if the form for people is wanted. With lines, each of
// several values is one line, as it is.
func (f *forms) printer(ctx context.Context, s *terminal.Screen, lines bool) func(json.RawMessage) error {
	switch {
	case f.Filter != "":
		p, err := output.NewPrinter(s, output.Options{Filter: f.Filter, Mode: f.jsonMode()})
		if err != nil {
			return func(json.RawMessage) error { return err } // check has reported it
		}
		return func(data json.RawMessage) error { return p.Print(ctx, &client.Item{Data: data}) }
	case f.Mode != "json":
		return nil
	case lines:
		return func(data json.RawMessage) error { return s.Line(string(data)) }
	}
	return func(data json.RawMessage) error { return s.JSON(data) }
}

// jsonMode is the mode of a filter: texts are written without quotes unless JSON is wanted.
func (f *forms) jsonMode() string {
	if f.Mode == "json" {
		return "json"
	}
	return ""
}
