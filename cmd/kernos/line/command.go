package line

import (
	"context"
	"encoding/json"
	"errors"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"kernos/client"
	"kernos/cmd/kernos/server"
	"kernos/cmd/kernos/terminal"
	"kernos/internal/exit"
	"kernos/kernel"
	"kernos/message"
)

// A Command is a command that makes calls: its arguments and some of its flags are its own, and everything else is as
// for every call.
type Command struct {
	Forms []string       // one: the form for people, besides the forms of every call; several: the only forms
	Open  server.Options // how the kernel is opened if a call is sent
	Run   func(context.Context, *View) error

	flags Flags
}

// AddTo completes a command: with the flags of every call, except those that it has itself and those for parameters, and
// with what it runs.
func (d *Command) AddTo(c *cobra.Command) {
	forms := d.Forms
	if len(forms) == 1 {
		forms = append(forms, slices.DeleteFunc(slices.Clone(terminal.Modes), func(mode string) bool { return mode == forms[0] })...)
	}
	ofEveryCall := d.flags.AddTo(c, forms...)
	c.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		explained := c.Root().FlagErrorFunc()(c, err)
		if wrong, ok := errors.AsType[*pflag.InvalidValueError](err); ok && slices.Contains(ofEveryCall, wrong.GetFlag().Name) {
			return explained
		}
		return &exit.Error{Status: exit.Invalid, Cause: explained} // it would have been a parameter
	})
	c.RunE = func(c *cobra.Command, args []string) error {
		l, err := d.flags.line()
		if err != nil {
			return err
		}
		one := newCall(c, l)
		one.command = d
		defer one.close()
		return exit.OnSignal(c.Context(), func(ctx context.Context) error {
			err := one.repeated(ctx, func() error { return d.Run(ctx, &View{Args: args, Screen: one.screen, one: one}) })
			if errors.Is(err, errShown) {
				return nil
			}
			return err
		})
	}
}

// A View is one run of a command: where its calls go, and where it shows what comes back.
type View struct {
	Args   []string // the arguments of the command
	Screen *terminal.Screen
	one    *call
}

// errShown ends a view whose request was shown, or has become a job: nothing else is to be shown.
var errShown = errors.New("the request is shown in place of its answer")

// Call sends a request, or shows it, or makes a job of it, as the flags want it. It is a [server.Caller].
func (v *View) Call(ctx context.Context, m message.Message, event func(json.RawMessage) error) (json.RawMessage, error) {
	c := v.one
	if c.diverted() {
		if err := v.Send(ctx, m.Type, m.Data, nil); err != nil {
			return nil, &exit.Error{Status: exit.Status(err), Cause: err}
		}
		return nil, errShown
	}
	c.module, c.name = kernel.Method(m.Type)
	if err := c.mayRepeat(); err != nil {
		return nil, &exit.Error{Status: exit.Usage, Cause: err}
	}
	if route, ok := builtIn(c.fullName()); ok {
		if err := route.Syscall.Input.Validate(m.Data); err != nil {
			return nil, &message.Error{Code: 422, Message: err.Error()}
		}
	}
	own := c.metadata()
	m.Metadata = message.Metadata{ID: message.ID(own.ID), Correlation: own.Correlation, Causation: message.ID(own.Causation), IdempotencyKey: own.IdempotencyKey, Repeated: own.Repeated}
	ctx, cancel := c.limited(ctx)
	defer cancel()
	if other, ok := ctx.Value(kernelKey{}).(server.Caller); ok {
		return other(ctx, m, event)
	}
	if err := c.open(ctx); err != nil {
		return nil, exit.Wrap(ended(ctx, err))
	}
	data, err := c.kernel.Call(ctx, m, func(data json.RawMessage) error {
		c.bar.Clear()
		c.remark(data)
		if event == nil {
			return nil
		}
		return event(data)
	})
	c.bar.Clear()
	c.remark(data)
	return data, ended(ctx, err)
}

// Send makes the one call of a command on the path of every call. Show writes the data of its reply for people; if it is nil,
// the definition of the syscall presents it.
func (v *View) Send(ctx context.Context, t message.Type, input any, show func(json.RawMessage) error) error {
	params, err := json.Marshal(input)
	if err != nil {
		return exit.Wrap(err)
	}
	c := v.one
	module, name := kernel.Method(t)
	c.Words, c.show = []string{module, name}, show
	if err := c.locate(ctx); err != nil {
		return err
	}
	return c.dispatch(ctx, params)
}

// Output describes how the answer is to be written.
func (v *View) Output() terminal.Output { return v.one.Show }

// Shows reports whether the request is only shown.
func (v *View) Shows() bool { return v.one.shows() }

// Writer returns what writes data as the flags choose it, or nil if the form for people is wanted. With lines, each of
// several values is one line.
func (v *View) Writer(ctx context.Context, lines bool) func(json.RawMessage) error {
	return v.one.writer(ctx, lines)
}

// Write writes data as the flags choose it, or as show does for people.
func (v *View) Write(ctx context.Context, data json.RawMessage, show func(json.RawMessage) error) error {
	if write := v.Writer(ctx, false); write != nil {
		show = write
	}
	return show(data)
}

// NoteLacks notes what isn't listed because no daemon answers.
func (v *View) NoteLacks() { v.one.noteLacks() }

// Local reports whether the daemon of this user is called, and no server elsewhere.
func (v *View) Local() (bool, error) {
	err := v.one.choose()
	return err == nil && v.one.server.Daemon != nil, err
}

// kernelKey is the key of what [WithKernel] keeps in a context.
type kernelKey struct{}

// WithKernel returns a context whose views call another kernel, such as one that answers as a test wants.
func WithKernel(ctx context.Context, call server.Caller) context.Context {
	return context.WithValue(ctx, kernelKey{}, call)
}

// writer is [View.Writer].
func (c *call) writer(ctx context.Context, lines bool) func(json.RawMessage) error {
	if write := c.Show.Writer(ctx, c.screen, lines); write != nil {
		return write
	}
	if c.command == nil || c.Show.Template == "" && (c.Show.Mode == "" || slices.Contains(c.command.Forms, c.Show.Mode)) {
		return nil
	}
	return func(data json.RawMessage) error {
		out, err := terminal.NewPrinter(c.screen, c.Show)
		if err != nil {
			return err
		}
		return out.Print(ctx, &client.Item{Data: data})
	}
}

// printer returns what writes the data of the answer: as the flags choose, or for people.
func (c *call) printer(ctx context.Context, out *terminal.Printer) func(*client.Item) error {
	switch {
	case c.command == nil:
	case c.show != nil:
		if write := c.writer(ctx, false); write != nil {
			return func(item *client.Item) error { return write(item.Data) }
		}
		return func(item *client.Item) error { return c.show(item.Data) }
	case c.writer(ctx, false) == nil:
		return out.Present
	}
	return func(item *client.Item) error { return out.Print(ctx, item) }
}
