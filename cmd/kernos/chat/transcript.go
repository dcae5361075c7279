package chat

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"

	reflective "kernos/client"
	"kernos/cmd/kernos/terminal"
	"kernos/daemon"
	"kernos/internal/jsonvalue"
	"kernos/internal/visible"
	"kernos/kernel"
	"kernos/message"
	"kernos/message/mark"
)

// A transcript makes lines of the messages of a session, also of those that grow. Blocks of lines are
// separated by an empty line.
type transcript struct {
	screen    *terminal.Screen
	plain     bool // Markdown is shown as it is written
	reasoning bool // shown whole, and not folded

	growing []*part
	open    []openCall // calls without a result
	began   bool       // a block was printed already
	thought string     // the last reasoning
}

// A part is a message that grows.
type part struct {
	id, kind string
	text     string
	shown    int // bytes that are among the lines already
}

// An openCall is a call that has no result yet.
type openCall struct {
	id, name string
	args     json.RawMessage
	at       int64 // time of the call, in milliseconds since 1970
}

// block separates lines from those before.
func (t *transcript) block(lines ...string) []string {
	if t.began {
		lines = append([]string{""}, lines...)
	}
	t.began = true
	return lines
}

// text returns the lines of a text of the model.
func (t *transcript) text(text string) []string {
	if t.plain {
		text = terminal.WrapText(t.screen, strings.TrimRight(text, "\n"))
	} else {
		text = terminal.Markdown(t.screen, text)
	}
	if text == "" {
		return nil
	}
	return strings.Split(text, "\n")
}

// event returns the lines that are new.
func (t *transcript) event(e event) []string {
	switch {
	case e.complete != nil:
		return t.message(e.complete)
	case e.IDs != nil:
		return t.discard(e.IDs)
	}
	i := slices.IndexFunc(t.growing, func(p *part) bool { return p.id == e.ID })
	if i < 0 {
		i = len(t.growing)
		t.growing = append(t.growing, &part{id: e.ID, kind: e.MessageType})
	}
	p := t.growing[i]
	p.text = p.text[:min(e.Offset, len(p.text))] + e.Delta.Text
	if p.kind != "reply" {
		return nil
	}
	whole, _ := terminal.SplitMarkdown(p.text[p.shown:])
	p.shown += len(whole)
	if lines := t.text(whole); len(lines) > 0 {
		return t.block(lines...)
	}
	return nil
}

// live returns the lines of what grows and can still change.
func (t *transcript) live() (lines []string) {
	for _, p := range t.growing {
		if p.kind != "reply" {
			continue
		}
		if rest := t.text(p.text[p.shown:]); len(rest) > 0 {
			lines = append(append(lines, ""), rest...)
		}
	}
	return lines
}

// doing describes what the model does while it generates no text; "" if it generates some.
func (t *transcript) doing() string {
	for _, p := range t.growing {
		switch {
		case p.kind == "reply" && p.shown < len(p.text):
			return ""
		case p.kind == "reasoning":
			return "reasoning"
		}
	}
	if len(t.open) > 0 {
		return visible.Text(t.open[0].name)
	}
	return "thinking"
}

func (t *transcript) discard(ids []string) []string {
	said := false
	t.growing = slices.DeleteFunc(t.growing, func(p *part) bool {
		withdrawn := slices.Contains(ids, p.id)
		said = said || withdrawn && p.shown > 0
		return withdrawn
	})
	if !said {
		return nil
	}
	return t.block(t.screen.Paint(terminal.Faint, "The provider has failed; the model begins again."))
}

// message returns the lines of a message that is complete.
func (t *transcript) message(m *entry) []string {
	s := t.screen
	var rest string
	if i := slices.IndexFunc(t.growing, func(p *part) bool { return p.id == m.ID }); i >= 0 {
		p := t.growing[i]
		rest, _ = strings.CutPrefix(m.Text, p.text[:p.shown])
		t.growing = slices.Delete(t.growing, i, i+1)
	} else {
		rest = m.Text
	}
	switch m.Type {
	case "input":
		return t.block(t.input(m)...)
	case "reply":
		lines := t.text(rest)
		if m.Partial {
			lines = append(lines, s.Paint(terminal.Faint, "(cut off)"))
		}
		if len(lines) == 0 {
			return nil
		}
		return t.block(lines...)
	case "reasoning":
		t.thought = m.Summary
		return t.block(t.reasons(m)...)
	case "tool-calls":
		var lines []string
		for _, c := range m.Calls {
			t.open = append(t.open, openCall{c.ID, c.Name, c.Args, m.Timestamp})
			lines = append(lines, t.called(c.Name, c.Args))
		}
		return t.block(lines...)
	case "tool-results":
		var lines []string
		for _, r := range m.Results {
			lines = append(lines, t.result(m, &r)...)
		}
		return lines
	case "approval-request":
		return append([]string{s.Paint(terminal.Yellow, "  ! "+visible.Text(m.Name)+" needs an approval ("+visible.Text(m.Rule)+")")}, t.arguments(m.Args)...)
	case "approval-response":
		if i := slices.IndexFunc(t.open, func(c openCall) bool { return c.id == m.Call }); i >= 0 {
			t.open[i].at = m.Timestamp // the call has waited until now
		}
		return []string{s.Paint(terminal.Faint, "    "+decision(m))}
	case "system":
		return t.folded("system", m.Text)
	case "summary":
		return t.folded("summary of the conversation so far", m.Text)
	case "log":
		return t.block(s.Paint(terminal.Faint, terminal.WrapText(s, m.Text)))
	}
	return t.block(s.Paint(terminal.Faint, t.clip(visible.Text(m.Type+" "+string(m.raw)))))
}

// input returns the lines of an input.
func (t *transcript) input(m *entry) []string {
	text := strings.TrimRight(m.Text, "\n")
	for _, f := range m.Files {
		text += fmt.Sprintf("\n[file %s]", cmp.Or(f.Filename, f.MimeType, "without a name"))
	}
	narrow := *t.screen
	narrow.Width = max(narrow.Width-2, 0)
	lines := strings.Split(terminal.WrapText(&narrow, strings.TrimPrefix(text, "\n")), "\n")
	for i := range lines {
		mark := "  "
		if i == 0 {
			mark = "> "
		}
		lines[i] = t.screen.Paint(terminal.Bold, mark+lines[i])
	}
	return lines
}

func (t *transcript) reasons(m *entry) []string {
	s := t.screen
	title := cmp.Or(visible.Text(strings.TrimSpace(m.Title)), "reasoning")
	if !t.reasoning {
		return []string{s.Paint(terminal.Faint, t.clip(fmt.Sprintf("∴ %s (%s)", title, terminal.Count(len(strings.Fields(m.Summary)), "word", "words"))))}
	}
	lines := []string{s.Paint(terminal.Faint, "∴ "+title)}
	for line := range strings.SplitSeq(terminal.WrapText(s, strings.TrimSpace(m.Summary)), "\n") {
		lines = append(lines, s.Paint(terminal.Faint, line))
	}
	return lines
}

// folded returns a message that is shown by its first words.
func (t *transcript) folded(what, text string) []string {
	return t.block(t.screen.Paint(terminal.Faint, t.clip("· "+what+": "+visible.Text(strings.Join(strings.Fields(text), " ")))))
}

func (t *transcript) called(name string, args json.RawMessage) string {
	kind := message.KindCommand
	if known := definition(name); known != nil && known.Kind == message.KindQuery {
		kind = message.KindQuery
	}
	m := mark.Of[kind]
	return t.clip(t.screen.Paint(terminal.Style(m.Terminal), m.Sign+" "+visible.Text(name)) + " " + visible.Text(string(args)))
}

// definition returns the definition of a built-in syscall; nil for others.
func definition(name string) *kernel.Syscall {
	if r, err := daemon.Definitions(); err == nil {
		if known, ok := r.Lookup(message.Type(name)); ok {
			return known
		}
	}
	return nil
}

// arguments shows all of the arguments of a call that a person decides about.
func (t *transcript) arguments(args json.RawMessage) (lines []string) {
	if len(args) == 0 {
		return nil
	}
	text := t.screen.Pretty(args)
	if t.screen.IsTerminal() {
		text = ansi.Hardwrap(text, t.screen.Width-4, true)
	}
	for line := range strings.SplitSeq(text, "\n") {
		lines = append(lines, "    "+line)
	}
	return lines
}

// mostOfResult is how many lines of a result are shown.
const mostOfResult = 3

// result returns the lines of a result: what the call did, or why it has failed.
func (t *transcript) result(m *entry, r *result) []string {
	s := t.screen
	made := openCall{name: r.Name}
	about := ""
	several := len(t.open) > 1
	if i := slices.IndexFunc(t.open, func(c openCall) bool { return c.id == r.CallID }); i >= 0 {
		made = t.open[i]
		about = duration(m.Timestamp - made.at)
		t.open = slices.Delete(t.open, i, i+1)
	}
	if several {
		about = strings.TrimSpace(visible.Text(made.name) + " " + about)
	}
	var text string
	failed := len(r.Error) > 0
	if e, err := message.ParseError(r.Error); failed && err == nil {
		text = fmt.Sprintf("%d %s", e.Code, visible.Text(e.Error()))
	} else if failed {
		text = visible.Text(string(r.Error))
	} else {
		text, failed = sentence(s, &made, r.Output)
	}
	outcome := mark.Of[message.KindReply]
	if failed {
		outcome = mark.Of[message.KindError]
	}
	sign := strings.TrimSpace(outcome.Sign + " " + about)
	lines := strings.Split(terminal.Hang(text, terminal.Columns("  "+sign+" "), s.Width), "\n")
	if len(lines) > mostOfResult {
		lines = lines[:mostOfResult]
		lines[mostOfResult-1] += " …"
	}
	lines[0] = "  " + s.Paint(terminal.Style(outcome.Terminal), sign) + " " + lines[0]
	for i := range lines {
		lines[i] = t.clip(lines[i])
	}
	return lines
}

// sentence reports the output of a call as the definition of its syscall does, also of one that Syscall.Call has made.
func sentence(s *terminal.Screen, made *openCall, output json.RawMessage) (text string, failed bool) {
	name, args := made.name, made.args
	if name == "Syscall.Call" {
		in := jsonvalue.Members(args)
		name, _ = jsonvalue.String(in.Get("type"))
		args = in.Get("data")
	}
	var p reflective.Presentation
	if known := definition(name); known != nil {
		p.Columns, p.Result, p.Failure = known.Columns, known.Result, known.Failure
	}
	return s.Sentence(&p, args, output)
}

// clip cuts a line to the width of the terminal.
func (t *transcript) clip(line string) string {
	if !t.screen.IsTerminal() {
		return line
	}
	return ansi.Truncate(line, t.screen.Width, "…")
}

func duration(milliseconds int64) string {
	d := time.Duration(max(milliseconds, 0)) * time.Millisecond
	switch {
	case d < time.Second:
		return fmt.Sprintf("%dms", d.Milliseconds())
	case d < time.Minute:
		return fmt.Sprintf("%.1fs", d.Seconds())
	}
	return d.Round(time.Second).String()
}

// decision reports what was decided about a call.
func decision(m *entry) string {
	text := "denied"
	if m.Decision == "allow" {
		text = "allowed " + map[string]string{"": "once", "once": "once", "session": "in this session", "always": "always"}[m.Remember]
	}
	if m.By != "" && m.By != "owner" {
		text += " by " + visible.Text(m.By)
	}
	if m.Reason != "" {
		text += ": " + visible.Text(m.Reason)
	}
	return text
}
