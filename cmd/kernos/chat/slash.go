package chat

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	tea "charm.land/bubbletea/v2"

	"kernos/cmd/kernos/record"
	"kernos/cmd/kernos/server"
	"kernos/cmd/kernos/terminal"
	"kernos/internal/nearest"
	"kernos/internal/visible"
	"kernos/message"
)

// A command is what a line that begins with / does.
type command struct {
	name, takes, about string
	idle               bool // the command can't run during a turn
	begun              bool // the command needs a session
	run                func(m *screen, args string) tea.Cmd
}

// commands returns the commands in the order of /help.
func commands() []command {
	return []command{
		{name: "approve", about: "answer what waits for an approval", run: (*screen).approve},
		{name: "continue", about: "resume a turn that was ended or has failed", idle: true, begun: true, run: (*screen).resume},
		{name: "cost", about: "what the session has used", begun: true, run: (*screen).cost},
		{name: "fork", takes: "[SEQ]", about: "continue in a new session, from a message on", idle: true, begun: true, run: (*screen).fork},
		{name: "graph", about: "draw what caused what", begun: true, run: (*screen).graph},
		{name: "help", about: "list the commands", run: (*screen).help},
		{name: "model", takes: "[NAME]", about: "list the models, or change to another one", run: (*screen).changeModel},
		{name: "quit", about: "leave; an open turn continues", run: func(m *screen, _ string) tea.Cmd { return m.leave() }},
		{name: "reasoning", about: "show the last reasoning", run: (*screen).unfold},
		{name: "save", takes: "[FILE]", about: "write the session to a file: .md or .json", begun: true, run: (*screen).save},
		{name: "tools", about: "list what the model may call", begun: true, run: (*screen).tools},
		{name: "undo", about: "take the last input back", idle: true, begun: true, run: (*screen).undo},
	}
}

// slash splits a text that is a command. One that begins with a path isn't.
func slash(text string) (name, args string, ok bool) {
	name, ok = strings.CutPrefix(text, "/")
	name, args, _ = strings.Cut(name, " ")
	return name, strings.TrimSpace(args), ok && !strings.ContainsAny(name, "/.\n")
}

// command runs a command.
func (m *screen) command(name, args, text string) tea.Cmd {
	all := commands()
	i := slices.IndexFunc(all, func(c command) bool { return c.name == name })
	if i < 0 {
		names := make([]string, len(all))
		for i, c := range all {
			names[i] = "/" + c.name
		}
		m.fail(fmt.Errorf("unknown command /%s; %s", name, cmp.Or(nearest.Hint("/"+name, names), "/help lists them")))
		m.editor.SetValue(text)
		return nil
	}
	switch c := all[i]; {
	case c.begun && m.session == "":
		m.fail(fmt.Errorf("/%s needs a conversation: say something first", name))
	case c.idle && m.busy():
		m.fail(fmt.Errorf("/%s has to wait until the turn has ended; Ctrl-C ends it", name))
	case c.takes == "" && args != "":
		m.fail(fmt.Errorf("/%s takes nothing, got %q", name, args))
	default:
		m.say(m.out.Paint(terminal.Faint, m.transcript.clip("> "+visible.Text(text))))
		return c.run(m, args)
	}
	return nil
}

func (m *screen) help(string) tea.Cmd {
	return m.shows(func(s *terminal.Screen) error {
		var rows [][]string
		for _, c := range commands() {
			rows = append(rows, []string{strings.TrimSpace("/" + c.name + " " + c.takes), c.about})
		}
		rows = append(rows, []string{"@PATH", "send a file with the message"},
			[]string{"Tab", "complete a command, a file, a syscall or a skill"},
			[]string{"Ctrl-J", "begin another line, as Alt-Enter and a \\ at the end do"},
			[]string{"Ctrl-R", "search earlier inputs"},
			[]string{"Ctrl-C", "end the turn, or clear the line; again, or Ctrl-D, leave"})
		return s.Explained(rows)
	})
}

func (m *screen) approve(string) tea.Cmd {
	if len(m.asked) == 0 {
		m.say("Nothing waits for an approval.")
	}
	m.dismissed = false
	return nil
}

func (m *screen) resume(string) tea.Cmd {
	session := m.session
	m.sending = true
	return func() tea.Msg {
		var t turn
		err := server.Read(m.ctx, m.client.within(session), message.KindCommand, "Session.Continue", map[string]any{"session": session}, &t)
		return sentMsg{turn: t, err: err}
	}
}

func (m *screen) cost(string) tea.Cmd {
	session := m.session
	return m.shows(func(s *terminal.Screen) error {
		i, err := m.client.get(m.ctx, session)
		if err != nil {
			return err
		}
		text := fmt.Sprintf("%s: %s, %s, %s", terminal.Count(i.Turns, "turn", "turns"), terminal.Count(i.Used.Steps, "generation", "generations"), terminal.Count(i.Used.Calls, "call", "calls"), terminal.Count(int(i.Used.Tokens), "token", "tokens"))
		if i.Used.Cost > 0 {
			text += fmt.Sprintf(", %.4f of money", i.Used.Cost)
		}
		return s.Line(terminal.WrapText(s, text))
	})
}

func (m *screen) fork(args string) tea.Cmd {
	session := m.session
	in := map[string]any{"session": session}
	if args != "" {
		at, err := strconv.ParseUint(args, 10, 64)
		if err != nil {
			m.fail(fmt.Errorf("/fork takes the number of a message, got %q; kernos session show lists them", args))
			return nil
		}
		in["at"] = at
	}
	return func() tea.Msg {
		var out struct{ Session string }
		err := server.Read(m.ctx, m.client.within(session), message.KindCommand, "Session.Fork", in, &out)
		var i info
		if err == nil {
			i, err = m.client.get(m.ctx, out.Session)
		}
		return answeredMsg{err: err, then: func(m *screen) tea.Cmd {
			m.say(m.out.Paint(terminal.Faint, "This is the session "+out.Session+" now; "+session+" stays as it is."))
			m.session, m.seq, m.status.described = out.Session, i.Seq, i
			return nil
		}}
	}
}

func (m *screen) graph(string) tea.Cmd {
	session := m.session
	return m.shows(func(s *terminal.Screen) error {
		return record.New(m.client.call, s, nil).Graph(m.ctx, record.GraphRequest{CorrelationID: session, Format: "tree"})
	})
}

func (m *screen) changeModel(name string) tea.Cmd {
	if name != "" {
		if len(m.known.models) > 0 && !slices.Contains(m.known.models, name) {
			m.fail(fmt.Errorf("there is no model %q; %s", name, cmp.Or(nearest.Hint(name, m.known.models), "/model lists them")))
			return nil
		}
		m.model = name
		m.say(m.out.Paint(terminal.Faint, visible.Text("The next message goes to "+name+".")))
		return nil
	}
	return m.shows(func(s *terminal.Screen) error { return showModels(m.ctx, m.client.call, s) })
}

func (m *screen) unfold(string) tea.Cmd {
	thought := strings.TrimSpace(m.transcript.thought)
	if thought == "" {
		m.say("There is no reasoning yet.")
		return nil
	}
	return m.shows(func(s *terminal.Screen) error {
		return s.Line(s.Paint(terminal.Faint, terminal.WrapText(s, thought)))
	})
}

func (m *screen) save(file string) tea.Cmd {
	session := m.session
	file = cmp.Or(file, session+".md")
	return m.shows(func(s *terminal.Screen) error {
		var b bytes.Buffer
		to := &terminal.Screen{Out: &b, Now: s.Now}
		exported, err := Export(m.ctx, m.client.call, session)
		switch {
		case err != nil:
		case strings.HasSuffix(file, ".json"):
			err = to.JSON(exported)
		default:
			err = ExportMarkdown(m.ctx, m.client.call, to, exported)
		}
		if err != nil {
			return err
		}
		out, err := os.OpenFile(file, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		if errors.Is(err, os.ErrExist) {
			return fmt.Errorf("%s exists already: /save another FILE", file)
		} else if err != nil {
			return err
		}
		_, err = out.Write(b.Bytes())
		if err = cmp.Or(err, out.Close()); err != nil {
			return errors.Join(err, os.Remove(file)) // so that the next attempt finds no part of it
		}
		return s.Line(terminal.WrapText(s, "The session is in "+file+"."))
	})
}

func (m *screen) tools(string) tea.Cmd {
	session, known := m.session, m.known.syscalls
	return m.shows(func(s *terminal.Screen) error {
		i, err := m.client.get(m.ctx, session)
		if err != nil {
			return err
		}
		var rows [][]string
		for _, t := range i.Tools {
			rows = append(rows, []string{t.Name, cmp.Or(t.Description, known[t.Name])})
		}
		return s.Explained(rows)
	})
}

// undo goes back to before the last input, which is in the editor then.
func (m *screen) undo(string) tea.Cmd {
	session := m.session
	return func() tea.Msg {
		exported, err := Export(m.ctx, m.client.call, session)
		if err != nil {
			return answeredMsg{err: err}
		}
		_, path, err := m.client.load(m.ctx, exported)
		if err != nil {
			return answeredMsg{err: err}
		}
		var last *entry
		for i := range path {
			if path[i].Type == "input" {
				last = &path[i]
			}
		}
		if last == nil {
			return answeredMsg{err: errors.New("there is no input to take back")}
		}
		var out struct {
			Commands []struct {
				Name string
				Args json.RawMessage
			}
		}
		err = server.Read(m.ctx, m.client.within(session), message.KindCommand, "Session.Rewind", map[string]any{"session": session, "to": last.Parent}, &out)
		return answeredMsg{err: err, then: func(m *screen) tea.Cmd {
			lines := []string{m.out.Paint(terminal.Faint, "The last input is taken back.")}
			for _, c := range out.Commands {
				lines = append(lines, m.transcript.clip(m.out.Paint(terminal.Yellow, "  not undone: "+visible.Text(c.Name))+" "+visible.Text(string(c.Args))))
			}
			m.say(lines...)
			m.editor.SetValue(last.Text)
			return nil
		}}
	}
}
