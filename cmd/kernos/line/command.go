package line

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/spf13/cobra"

	"kernos/client"
	"kernos/cmd/kernos/server"
	"kernos/cmd/kernos/terminal"
	"kernos/internal/exit"
	"kernos/kernel"
	"kernos/message"
)

// A Command is a command that makes one call: its arguments are its own, and all else is as for every call.
type Command struct {
	Type message.Type // of the syscall
	Form string       // the name of the form for people, which is the default

	// Show writes the data of the reply for people.
	Show func(json.RawMessage, *terminal.Screen) error

	// Open is how the kernel is opened if the call is sent.
	Open server.Options

	flags Flags
}

// AddTo gives a command the flags of every call, except those that it has itself, and those for parameters.
func (d *Command) AddTo(c *cobra.Command) {
	modes := slices.DeleteFunc(slices.Clone(terminal.Modes), func(mode string) bool { return mode == d.Form })
	d.flags.AddTo(c, append([]string{d.Form}, modes...)...)
}

// Run makes the call with these parameters.
func (d *Command) Run(c *cobra.Command, params json.RawMessage) error {
	line, err := d.flags.Line(kernel.Method(d.Type))
	if err != nil {
		return err
	}
	one := newCall(c, line)
	one.command = d
	defer one.close()
	return exit.OnSignal(c.Context(), func(ctx context.Context) error {
		if err := one.locate(ctx); err != nil {
			return err
		}
		return one.dispatch(ctx, params)
	})
}

// printer returns what writes the data of the answer: as the flags choose, or for people.
func (c *call) printer(ctx context.Context, out *terminal.Printer) func(*client.Item) error {
	d := c.command
	switch write := c.Show.Writer(ctx, c.screen, false); {
	case d == nil:
	case write != nil:
		return func(item *client.Item) error { return write(item.Data) }
	case c.Show.Template == "" && (c.Show.Mode == "" || c.Show.Mode == d.Form):
		return func(item *client.Item) error { return d.Show(item.Data, c.screen) }
	}
	return func(item *client.Item) error { return out.Print(ctx, item) }
}
