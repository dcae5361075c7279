package chat

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	tea "charm.land/bubbletea/v2"

	"kernos/cmd/kernos/server"
	"kernos/cmd/kernos/terminal"
	"kernos/internal/jsonvalue"
	"kernos/internal/visible"
	"kernos/message"
)

// choices are the keys that answer an approval-request.
const choices = "a allow · s session · w always · d deny · e edit · ? why"

// noticing is how long a question is shown, with nothing typed, before it takes keys. A person who is writing
// would otherwise allow a call with a letter of a sentence.
const noticing = 500 * time.Millisecond

// present shows the question about the first approval that waits, when what it is about is printed, and
// withdraws it while there is a text in the editor.
func (m *screen) present() tea.Cmd {
	can := len(m.asked) > 0 && !m.dismissed && !m.editing && m.searching == nil && m.editor.Value() == ""
	if m.offer != nil && (!can || m.offer.call != m.asked[0].Call) {
		m.offer = nil
	}
	if !can || m.offer != nil || m.unprinted() {
		return nil
	}
	shown := &offer{call: m.asked[0].Call}
	m.offer = shown
	return tea.Tick(noticing, func(time.Time) tea.Msg { return offerSeenMsg{shown} })
}

// asking reports whether a question takes the keys, in place of the editor.
func (m *screen) asking() bool { return m.offer != nil && m.offer.noticed }

// ask asks about a call, unless a person has written its arguments.
func (m *screen) ask(r entry) tea.Cmd {
	i := slices.IndexFunc(m.wanted, func(w editedArgs) bool { return w.name == r.Name && jsonvalue.Same(w.args, r.Args) })
	if i >= 0 {
		m.wanted = slices.Delete(m.wanted, i, i+1)
		return m.decide(&r, "allow", "once", "")
	}
	m.asked, m.dismissed = append(m.asked, r), false
	return nil
}

// settle forgets the questions that were answered, here or elsewhere.
func (m *screen) settle(answer *entry) {
	answered := func(call string) bool {
		return answer.Call == call || slices.ContainsFunc(answer.Results, func(r result) bool { return r.CallID == call })
	}
	if len(m.asked) > 0 && answered(m.asked[0].Call) && m.editing {
		m.editing = false
		m.editor.Reset()
	}
	m.asked = slices.DeleteFunc(m.asked, func(r entry) bool { return answered(r.Call) })
}

// question returns what is asked, above the editor or in place of it.
func (m *screen) question() []string {
	switch {
	case len(m.asked) == 0 || m.offer == nil && m.unprinted():
		return nil
	case m.editing:
		return []string{m.out.Paint(terminal.Yellow, m.transcript.clip("The arguments of "+visible.Text(m.asked[0].Name)+": Enter uses them, Esc goes back"))}
	case m.dismissed:
		return []string{m.out.Paint(terminal.Yellow, m.transcript.clip(visible.Text(m.asked[0].Name)+" waits for an approval: /approve"))}
	}
	asked := "Allow " + visible.Text(m.asked[0].Name) + "?"
	if m.editor.Value() != "" {
		asked += " It is asked when the line below is empty"
	}
	lines := []string{m.out.Paint(terminal.Yellow, m.transcript.clip(asked))}
	if m.asking() {
		lines = append(lines, m.transcript.clip(choices))
	}
	return lines
}

// decideBy answers the question by a key. It reports whether the key was one of its own: while it is
// asked, the editor takes none.
func (m *screen) decideBy(key string) (tea.Cmd, bool) {
	r := m.asked[0]
	if slices.Contains([]string{"ctrl+c", "ctrl+d", "ctrl+z"}, key) {
		return nil, false
	}
	if m.offer.decided {
		return nil, true
	}
	m.offer.decided = slices.Contains([]string{"a", "y", "s", "w", "d", "n"}, key)
	switch key {
	case "a", "y":
		return m.decide(&r, "allow", "once", ""), true
	case "s":
		return m.decide(&r, "allow", "session", ""), true
	case "w":
		return m.decide(&r, "allow", "always", ""), true
	case "d", "n":
		return m.decide(&r, "deny", "once", ""), true
	case "e":
		m.editing = true
		text, err := json.MarshalIndent(r.Args, "", "  ")
		if err != nil {
			text = r.Args
		}
		m.editor.SetValue(string(text))
		return nil, true
	case "?":
		return m.explain(&r), true
	case "esc":
		m.dismissed = true
	}
	return nil, true
}

// decide decides about a call, with the arguments that were shown. The answer comes with the messages
// of the session.
func (m *screen) decide(r *entry, decision, remember, reason string) tea.Cmd {
	in := map[string]any{"call": r.Call, "decision": decision, "remember": remember}
	if len(r.Args) > 0 {
		in["args"] = r.Args
	}
	if reason != "" {
		in["reason"] = reason
	}
	session := cmp.Or(r.child, m.session)
	return func() tea.Msg { return answeredMsg{err: m.client.do(m.ctx, "Session.Decide", session, in)} }
}

// edited puts other arguments in the place of those of a call. A call isn't changed: it is denied, and
// the model is told to make it with these.
func (m *screen) edited(text string) tea.Cmd {
	args := json.RawMessage(text)
	if !json.Valid(args) {
		m.fail(fmt.Errorf("the arguments aren't JSON; correct them, or press Esc"))
		return nil
	}
	m.editing = false
	m.editor.Reset()
	r := m.asked[0]
	if jsonvalue.Same(args, r.Args) {
		return m.decide(&r, "allow", "once", "")
	}
	m.wanted = append(m.wanted, editedArgs{r.Name, args})
	return m.decide(&r, "deny", "once", "call it with these arguments instead: "+string(args))
}

// explain explains what a call would do, and what each key means.
func (m *screen) explain(r *entry) tea.Cmd {
	name, rule := r.Name, r.Rule
	return m.shows(func(s *terminal.Screen) error {
		var about struct{ Summary string }
		if err := server.Read(m.ctx, m.client.call, message.KindQuery, "Syscall.Describe", map[string]any{"name": name}, &about); err != nil {
			about.Summary = err.Error()
		}
		text := fmt.Sprintf("%s: %s\nIt asks because of the %s.\na runs this call. s runs it, and all calls of %s in this session. w does so in all sessions. d tells the model that it may not. e changes the arguments. Esc answers later (/approve). Ctrl-C ends the turn.",
			name, about.Summary, rule, name)
		return s.Line(terminal.WrapText(s, text))
	})
}
