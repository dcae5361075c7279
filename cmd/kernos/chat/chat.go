// Package chat is a conversation with a model, for people and for scripts. It is a client of the module
// session like any other: a turn belongs to the kernel, and continues when the chat has ended. It finds the models that
// a kernel could be connected to, too: servers on this machine, and providers whose key is in an environment variable.
//
//	conversation.go  the syscalls of sessions
//	transcript.go    messages as lines
//	state.go         the state of the conversation on a terminal
//	update.go        its updates and its view: what is complete is printed, the editor is below it
//	status.go        the line below the editor: the model, the time of the turn, what the session has used
//	history.go       earlier inputs; recall.go finds them
//	notice.go        notifications for the person
//	script.go        one input and its turn, without a terminal
//	models.go        models that can be connected; ask.go has the questions about them
//
// # Goroutines
//
//   - Asking a server for its models, one per server: [Detect] waits for them.
//   - What the end of the client causes: its calls end.
//   - Reporting the first view, once per conversation: it ends when the loop has taken the message, or has ended.
package chat

import (
	"context"
	"errors"
	"io"

	"kernos/cmd/kernos/terminal"
	"kernos/internal/exit"
)

// Run holds the conversation that was prepared.
func Run(ctx context.Context, o *Options) error {
	c, err := dial(ctx, o.Open)
	if err != nil {
		return err
	}
	err = o.run(ctx, c)
	if closeErr := c.close(); err == nil {
		err = closeErr
	}
	return err
}

func (o *Options) run(ctx context.Context, c *client) error {
	out := terminal.NewScreen(o.Out, o.Err)
	session, err := o.find(ctx, c, out)
	if err != nil {
		return err
	}
	if o.Prompt != "" {
		return o.script(ctx, c, out, session)
	}
	m := newScreen(ctx, c, o, out)
	if session == "" {
		if err := Introduce(ctx, c.call, out, o.in, o.Model, o.local); errors.Is(err, io.EOF) {
			return nil // Ctrl-D leaves
		} else if err != nil {
			return err
		}
	}
	m.model = o.Model
	if session == "" {
		m.model = "" // the session is created with it
	} else if err := m.restore(session); err != nil {
		return err
	}
	if err := m.run(ctx); err != nil {
		return exit.Wrap(err)
	}
	if m.session == "" {
		return nil
	}
	text := "kernos chat --resume " + m.session
	switch {
	case m.canceling:
		text = "the turn may continue; " + text + " comes back to it"
	case m.busy():
		text = "the turn continues; " + text + " comes back to it"
	default:
		text += " continues this conversation"
	}
	return out.Line(out.Paint(terminal.Faint, terminal.Hang(text, 0, out.Width)))
}
