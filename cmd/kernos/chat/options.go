package chat

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"kernos/cmd/kernos/server"
	"kernos/cmd/kernos/settings"
	"kernos/cmd/kernos/terminal"
	"kernos/internal/exit"
	"kernos/message"
)

// Choose is the value of [Options.Resume] that lets the person choose a session.
const Choose = "?"

// Options describe what to talk about, and with which model.
type Options struct {
	Open  server.Opener
	Agent string // an agent file
	Model string // "" is the default model

	Resume string // a session to continue, or Choose
	Last   bool   // continue the latest session
	Fork   string // ID@SEQ, or ID: continue in a copy of a session

	First  string // the first input of a conversation; without a terminal, the only one
	Prompt string // one input; "" means a conversation on a terminal
	JSON   bool   // print messages as they are, one per line
	Plain  bool   // show Markdown as it is written

	Out, Err io.Writer

	// Prepare sets these.
	in      *os.File                                     // the terminal of a conversation
	local   bool                                         // the kernel is on this machine
	keep    func(io.Reader) (message.BlobPointer, error) // nil unless it is
	history string                                       // the file of earlier inputs
}

// Prepare finds out where the kernel is, and whether there is one input or a conversation. What standard input
// has is part of the input, unless it is a terminal.
func (o *Options) Prepare(contextName string, stdin io.Reader) error {
	server, err := server.FindServer(contextName, "")
	if err != nil {
		return err
	}
	if o.local = server.Daemon != nil; o.local {
		o.keep = server.Keep
	}
	if home, err := settings.Home(); err == nil {
		o.history = filepath.Join(home.Dir, "chat-history")
	}
	in := terminal.Person(stdin)
	onTerminal := terminal.NewScreen(o.Out, o.Err).IsTerminal() && os.Getenv("TERM") != "dumb"
	if in == nil || o.JSON || !onTerminal {
		o.Prompt = cmp.Or(o.Prompt, o.First)
	}
	if in == nil {
		text, err := io.ReadAll(stdin)
		if err != nil {
			return exit.Wrap(err)
		}
		o.Prompt = strings.TrimSpace(o.Prompt + "\n\n" + string(text))
	}
	switch {
	case o.Prompt != "":
		return nil
	case in == nil:
		return errors.New("there is nothing to say: standard input is empty; give -p TEXT")
	case o.JSON:
		return errors.New("--json prints the messages of one turn: give -p TEXT, too")
	case !onTerminal:
		return errors.New("a conversation needs a terminal that can move its cursor; -p TEXT sends one message without one")
	}
	o.in = in
	return nil
}

// find returns the session to continue; "" if a new one begins.
func (o *Options) find(ctx context.Context, c *client, out *terminal.Screen) (string, error) {
	switch {
	case o.Fork != "":
		id, at, has := strings.Cut(o.Fork, "@")
		whole, err := c.get(ctx, id)
		if err != nil {
			return "", err
		}
		id = whole.Session
		in := map[string]any{"session": id}
		if has {
			seq, err := strconv.ParseUint(at, 10, 64)
			if err != nil {
				return "", fmt.Errorf("--fork takes ID@SEQ, with the number of a message, got %q; kernos session show %s lists them", o.Fork, id)
			}
			in["at"] = seq
		}
		var fork struct{ Session string }
		err = server.Read(ctx, c.within(id), message.KindCommand, "Session.Fork", in, &fork)
		return fork.Session, err
	case o.Resume != "" && o.Resume != Choose:
		i, err := c.get(ctx, o.Resume)
		return i.Session, err
	case o.Last, o.Resume == Choose:
		most := 1
		if o.Resume == Choose {
			most = 10
		}
		latest, err := list(ctx, c.call, most, func(s *listed) bool { return true })
		if err != nil {
			return "", err
		}
		if len(latest) == 0 {
			return "", exit.Wrap(errors.New("there is no session yet; kernos chat begins one"))
		}
		if o.Last {
			return latest[0].Session, nil
		}
		return o.choose(ctx, latest, out)
	}
	return "", nil
}

// choose lets the person choose a session.
func (o *Options) choose(ctx context.Context, all []listed, out *terminal.Screen) (string, error) {
	if o.in == nil || !out.IsTerminal() {
		return "", errors.New("name the session: --resume ID, or --last; kernos session list shows them")
	}
	rows := make([][]string, len(all))
	for i, s := range all {
		rows[i] = []string{strconv.Itoa(i + 1), terminal.ClipMiddle(s.Session, 12), terminal.Age(time.UnixMilli(s.Updated), out.Now), s.Title}
	}
	if err := out.Table([]string{"", "ID", "AGE", "TITLE"}, rows); err != nil {
		return "", err
	}
	line, err := terminal.Ask(ctx, o.in, o.Out, "Which one? ", false)
	n, numberErr := strconv.Atoi(strings.TrimSpace(line))
	if err != nil || numberErr != nil || n < 1 || n > len(all) {
		return "", exit.Wrap(fmt.Errorf("expected a number from 1 to %d, got %q", len(all), strings.TrimSpace(line)))
	}
	return all[n-1].Session, nil
}
