package chat

import (
	"strings"

	tea "charm.land/bubbletea/v2"
)

// A search looks for an input of the history while a person types a part of it.
type search struct {
	query string
	at    int    // the input that the editor has; the length of the history if it has none
	draft string // the text that was in the editor before, and its place in the history
	place int
	fails bool // nothing has the query
}

// line shows the search below the editor.
func (s *search) line() string {
	text := "search: " + s.query
	if s.fails {
		text += " (nothing found)"
	}
	return text + " · Ctrl-R earlier · Enter sends · Esc goes back"
}

// recall shows an earlier input, or a later one. It reports false where the key moves in the text.
func (m *screen) recall(earlier bool) bool {
	at := m.editor.LineInfo().RowOffset
	if earlier && (m.editor.Line() > 0 || at > 0) || !earlier && m.editor.Line() < m.editor.LineCount()-1 || m.editing {
		return false
	}
	if text, ok := m.history.move(earlier, m.editor.Value()); ok {
		m.editor.SetValue(text)
		m.menu = menu{}
	}
	return true
}

// searchHistory begins a search.
func (m *screen) searchHistory() {
	m.menu = menu{}
	m.searching = &search{at: len(m.history.all), draft: m.editor.Value(), place: m.history.at}
}

// searchBy lets a search handle a key. It reports false for a key that ends the search and edits what was found.
func (m *screen) searchBy(k tea.KeyPressMsg) (tea.Cmd, bool) {
	s := m.searching
	switch k.String() {
	case "ctrl+r":
		m.seek(s.at - 1)
	case "backspace":
		if r := []rune(s.query); len(r) > 0 {
			s.query = string(r[:len(r)-1])
			m.seek(len(m.history.all) - 1)
		}
	case "esc", "ctrl+c", "ctrl+g":
		m.editor.SetValue(s.draft)
		m.history.at, m.searching = s.place, nil
	default:
		if k.Text == "" {
			m.searching = nil
			return nil, false
		}
		s.query += k.Text
		m.seek(min(s.at, len(m.history.all)-1))
	}
	return nil, true
}

// seek shows the latest input up to a place of the history that has the query.
func (m *screen) seek(from int) {
	s := m.searching
	at := m.history.find(s.query, from)
	if s.fails = at < 0; s.fails {
		return
	}
	s.at, m.history.at = at, at // the arrows go on from here
	m.editor.SetValue(m.history.all[at])
}

// find returns the last input up to a place that has a text, in letters of either case; -1 if none has it.
func (h *history) find(text string, from int) int {
	text = strings.ToLower(text)
	for at := from; at >= 0; at-- {
		if strings.Contains(strings.ToLower(h.all[at]), text) {
			return at
		}
	}
	return -1
}
