package chat

import (
	"context"
	"fmt"
	"strings"
	"time"

	"kernos/cmd/kernos/line"
	"kernos/cmd/kernos/terminal"
	"kernos/internal/exit"
	"kernos/internal/visible"
)

// script sends one input, and shows the turn until it has ended: the replies on the output, and what is
// called on the error output if a person reads that. An interrupt ends the turn, and a second one leaves it
// running.
func (o *Options) script(ctx context.Context, c *client, out *terminal.Screen, session string) error {
	files, err := attached(o.Prompt, o.keep)
	if err != nil {
		return exit.Wrap(err)
	}
	in := input{Session: session, Text: o.Prompt, Files: files, Model: o.Model}
	after := uint64(0)
	if session == "" {
		in.Model = ""
		if in.Session, err = c.create(ctx, o.Agent, o.Model, title(o.Prompt)); err != nil {
			return err
		}
	} else if i, err := c.get(ctx, session); err != nil {
		return err
	} else if i.Status == "waiting" {
		return &exit.Error{Status: exit.Forbidden, Cause: fmt.Errorf("the session waits for a decision about its last turn, so nothing was sent; kernos chat --resume %s asks about it", session)}
	} else {
		after = i.Seq
	}
	turn, err := c.send(ctx, in)
	if err != nil {
		return err
	}
	watching, stop := context.WithCancel(ctx)
	defer stop()
	p := &printer{Options: o, out: out, notes: terminal.NewScreen(o.Err, o.Err), session: in.Session, stop: stop}
	p.replies, p.calls = transcript{screen: out, plain: o.Plain}, transcript{screen: p.notes}
	end, err := c.follow(watching, in.Session, after, turn.Turn, p.event)
	switch {
	case p.waits != nil:
		return p.waits
	case ctx.Err() != nil:
		again, cancel := context.WithTimeout(context.WithoutCancel(ctx), cancelTime)
		defer cancel()
		if i, err := c.get(again, in.Session); err != nil {
			return err
		} else if i.Turn != "" && i.Turn != turn.Turn {
			out.Note("another turn of the session runs, and the input waits for its end; kernos chat --resume %s shows both", in.Session)
			return ctx.Err()
		}
		if err := c.do(again, "Session.Cancel", in.Session, map[string]any{}); err != nil {
			return err
		}
		out.Note("the turn was ended; kernos chat --resume %s continues the conversation", in.Session)
		return ctx.Err()
	case p.err != nil:
		return p.err
	case err != nil:
		return err
	}
	if err := end.err(); err != nil {
		return exit.Wrap(fmt.Errorf("%s; kernos chat --resume %s continues the conversation", visible.Text(err.Error()), in.Session))
	}
	return nil
}

// cancelTime is how long the end of a turn may take.
const cancelTime = 10 * time.Second

// A printer shows a turn.
type printer struct {
	*Options
	out, notes     *terminal.Screen
	session        string
	replies, calls transcript
	streamed       map[string]int // bytes of replies that were written
	stop           func()
	waits          error // a call waits for a person
	err            error
}

func (p *printer) event(e event) {
	if p.err != nil {
		return
	}
	m := e.complete
	switch {
	case p.JSON && m != nil:
		p.err = p.out.Line(string(m.raw))
	case p.JSON:
	case m != nil && m.Type == "input":
	case m == nil && e.MessageType == "reply", m != nil && m.Type == "reply":
		p.err = p.reply(e)
	case p.notes.IsTerminal():
		if lines := p.calls.event(e); len(lines) > 0 {
			p.err = p.notes.Line(strings.Join(lines, "\n"))
		}
	}
	if m != nil && m.Type == "approval-request" {
		p.waits = line.NeedsApproval(m.Name, m.Rule, p.session)
		p.stop()
	}
}

// reply shows a reply: on a terminal block by block, elsewhere as it comes.
func (p *printer) reply(e event) error {
	if p.out.IsTerminal() {
		if lines := p.replies.event(e); len(lines) > 0 {
			return p.out.Line(strings.Join(lines, "\n"))
		}
		return nil
	}
	if p.streamed == nil {
		p.streamed = make(map[string]int)
	}
	if m := e.complete; m != nil {
		return p.out.Line(m.Text[min(p.streamed[m.ID], len(m.Text)):])
	}
	text := e.Delta.Text
	if skip := p.streamed[e.ID] - e.Offset; skip > 0 {
		text = text[min(skip, len(text)):]
	}
	p.streamed[e.ID] = e.Offset + len(e.Delta.Text)
	return p.out.Write(text)
}
