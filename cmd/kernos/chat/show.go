package chat

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"kernos/cmd/kernos/server"
	"kernos/cmd/kernos/terminal"
	"kernos/internal/visible"
	"kernos/message"
)

// Export returns what Session.Export replies.
func Export(ctx context.Context, call server.Caller, session string) (json.RawMessage, error) {
	return server.Send(ctx, call, message.KindQuery, "Session.Export", map[string]any{"session": session}, nil)
}

// Show writes a session, which was exported, as a person reads it: the messages from its root to its leaf.
func Show(ctx context.Context, call server.Caller, s *terminal.Screen, exported json.RawMessage, plain, reasoning bool) error {
	i, path, err := (&client{ctx: ctx, calls: call}).load(ctx, exported)
	if err != nil {
		return err
	}
	facts := [][]string{
		{"session", i.Session}, {"title", i.Title}, {"model", cmp.Or(i.Model, "default")},
		{"status", fmt.Sprintf("%s, %s, %s", i.Status, terminal.Count(i.Turns, "turn", "turns"), terminal.Count(len(path), "message", "messages"))},
		{"created", time.UnixMilli(i.Created).In(s.Now.Location()).Format(time.DateTime)},
	}
	if err := s.Table(nil, facts); err != nil {
		return err
	}
	t := transcript{screen: s, plain: plain, reasoning: reasoning, began: true}
	for _, m := range path {
		lines := t.message(&m)
		if len(lines) > 0 && lines[0] == "" {
			lines[0] = "\n" + s.Paint(terminal.Faint, fmt.Sprintf("#%d  %s", m.Seq, time.UnixMilli(m.Timestamp).In(s.Now.Location()).Format(time.TimeOnly)))
		}
		if err := s.Line(strings.Join(lines, "\n")); err != nil {
			return err
		}
	}
	return nil
}

// ExportMarkdown writes a session, which was exported, as a document. A terminal gets no commands that are in it.
func ExportMarkdown(ctx context.Context, call server.Caller, s *terminal.Screen, exported json.RawMessage) error {
	i, path, err := (&client{ctx: ctx, calls: call}).load(ctx, exported)
	if err != nil {
		return err
	}
	heading := cmp.Or(i.Title, "Session "+i.Session)
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n", strings.Join(strings.Fields(heading), " "))
	for _, m := range path {
		if text := asMarkdown(&m); text != "" {
			b.WriteString("\n" + strings.TrimRight(text, "\n") + "\n")
		}
	}
	text := b.String()
	if s.IsTerminal() {
		text = visible.Lines(text)
	}
	return s.Write(text)
}

// asMarkdown returns a message in a document. Texts of the model are Markdown already.
func asMarkdown(m *entry) string {
	fenced := func(value json.RawMessage) string {
		if len(value) == 0 {
			return ""
		}
		fence := "```"
		for strings.Contains(string(value), fence) {
			fence += "`"
		}
		return "\n" + fence + "json\n" + string(value) + "\n" + fence + "\n"
	}
	switch m.Type {
	case "input":
		text := "> " + strings.ReplaceAll(strings.TrimRight(m.Text, "\n"), "\n", "\n> ")
		for _, f := range m.Files {
			text += "\n>\n> file: " + f.Filename
		}
		return text
	case "reply":
		return m.Text
	case "reasoning":
		return "<details><summary>" + m.Title + "</summary>\n\n" + m.Summary + "\n\n</details>"
	case "tool-calls":
		var b strings.Builder
		for _, c := range m.Calls {
			fmt.Fprintf(&b, "**Call** `%s`\n%s", c.Name, fenced(c.Args))
		}
		return b.String()
	case "tool-results":
		var b strings.Builder
		for _, r := range m.Results {
			if len(r.Error) > 0 {
				fmt.Fprintf(&b, "**Error** of `%s`\n%s", r.Name, fenced(r.Error))
			} else {
				fmt.Fprintf(&b, "**Result** of `%s`\n%s", r.Name, fenced(r.Output))
			}
		}
		return b.String()
	case "approval-request":
		return fmt.Sprintf("**Approval** of `%s` (%s)", m.Name, m.Rule)
	case "approval-response":
		return "**Decision**: " + decision(m)
	}
	return fmt.Sprintf("**%s**: %s", m.Type, strings.TrimSpace(m.Text))
}

func modelNames(ctx context.Context, call server.Caller) (names []string, err error) {
	all, err := Models(ctx, call)
	for _, m := range all {
		names = append(names, m.Name)
	}
	return names, err
}

// showModels lists the models.
func showModels(ctx context.Context, call server.Caller, s *terminal.Screen) error {
	all, err := Models(ctx, call)
	if err != nil {
		return err
	}
	var rows [][]string
	for _, m := range all {
		about := strings.TrimSpace(m.Model + " " + m.BaseURL)
		switch {
		case m.Problem != "":
			about = m.Problem
		case m.Source == "built-in":
			about = "built in, for trying things out; kernos model add connects a real one"
		}
		rows = append(rows, []string{m.Name, about})
	}
	return s.Explained(rows)
}
