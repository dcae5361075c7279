package chat

import (
	"cmp"
	"strconv"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"kernos/cmd/kernos/terminal"
	"kernos/internal/visible"
)

// A status is what the line below the editor shows.
type status struct {
	described info      // the session, as the kernel has described it last
	generator string    // the model that has made the last message
	began     time.Time // start of the turn; zero if none runs
	took      time.Duration
}

// A describedMsg describes the session.
type describedMsg info

// describe asks the kernel about the session, whose usage has changed.
func (m *screen) describe() tea.Cmd {
	session := m.session
	return func() tea.Msg {
		i, err := m.client.get(m.ctx, session)
		if err != nil {
			return nil // the next message asks again
		}
		return describedMsg(i)
	}
}

// described takes a description, unless a later one has come before it.
func (m *screen) described(i describedMsg) {
	if i.Session == m.session && (m.status.described.Session != i.Session || i.Seq >= m.status.described.Seq) {
		m.status.described = info(i)
	}
}

// clock measures the time of the turn.
func (m *screen) clock() {
	switch {
	case m.busy() && m.status.began.IsZero():
		m.status.began = time.Now()
	case !m.busy() && !m.status.began.IsZero():
		m.status.took, m.status.began = time.Since(m.status.began), time.Time{}
	}
}

// statusLine returns the model, the time of the turn, and what the session has used; "" before there is a session. Parts for
// which the terminal is too narrow are left out.
func (m *screen) statusLine() string {
	if m.session == "" && !m.busy() {
		return ""
	}
	i := m.status.described
	parts := []string{visible.Text(cmp.Or(m.model, m.status.generator, i.Model, m.opts.Model, "default"))}
	switch {
	case !m.status.began.IsZero():
		parts = append(parts, time.Since(m.status.began).Truncate(time.Second).String())
	case m.status.took > 0:
		parts = append(parts, duration(m.status.took.Milliseconds()))
	}
	if i.Used.Tokens > 0 {
		parts = append(parts, terminal.Count(int(i.Used.Tokens), "token", "tokens"))
	}
	if i.Used.Cost > 0 {
		parts = append(parts, "cost "+strconv.FormatFloat(i.Used.Cost, 'f', 4, 64))
	}
	if m.session != "" {
		parts = append(parts, "session "+terminal.ClipMiddle(m.session, 12))
	}
	const between = " · "
	for len(parts) > 1 && terminal.Columns(strings.Join(parts, between)) > m.out.Width {
		parts = parts[:len(parts)-1]
	}
	return m.transcript.clip(strings.Join(parts, between))
}
