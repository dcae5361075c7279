package chat

import (
	"maps"
	"slices"
	"strings"
	"unicode"

	tea "charm.land/bubbletea/v2"

	"kernos/cmd/kernos/line"
	"kernos/cmd/kernos/server"
	"kernos/cmd/kernos/terminal"
	"kernos/internal/visible"
	"kernos/message"
)

// learn asks the kernel for the names. Names that it doesn't return aren't completed.
func (m *screen) learn() tea.Msg {
	k := completionNames{syscalls: make(map[string]string), skills: make(map[string]string)}
	k.models, _ = modelNames(m.ctx, m.client.call)
	var all struct {
		Syscalls  []string
		Summaries map[string]string
	}
	_ = server.Read(m.ctx, m.client.call, message.KindQuery, "Syscall.List", struct{}{}, &all)
	for _, name := range all.Syscalls {
		k.syscalls[name] = all.Summaries[name]
	}
	var index struct {
		Entries []struct{ URI, Kind, Description string }
	}
	_ = server.Read(m.ctx, m.client.call, message.KindQuery, "Content.Index", map[string]any{"uri": "os://"}, &index)
	for _, e := range index.Entries {
		k.skills[e.URI] = e.Kind + ": " + e.Description
	}
	return k
}

// word returns the word before the cursor, and whether it begins the text.
func (m *screen) word() (word string, first bool) {
	lines := strings.Split(m.editor.Value(), "\n")
	line := []rune(lines[min(m.editor.Line(), len(lines)-1)])
	before := string(line[:min(m.editor.Column(), len(line))])
	i := strings.LastIndexFunc(before, unicode.IsSpace) + 1
	return before[i:], i == 0 && m.editor.Line() == 0
}

// candidates returns what a word can be completed to.
func (m *screen) candidates(word string, first bool) (items []item) {
	add := func(names map[string]string) {
		for _, name := range slices.Sorted(maps.Keys(names)) {
			if strings.HasPrefix(name, word) {
				items = append(items, item{name, names[name]})
			}
		}
	}
	path, isFile := strings.CutPrefix(word, "@")
	switch {
	case isFile:
		for _, name := range line.Files("@", path) {
			items = append(items, item{text: name})
		}
	case first && strings.HasPrefix(word, "/"):
		for _, c := range commands() {
			if name := "/" + c.name; strings.HasPrefix(name, word) {
				items = append(items, item{name, c.about})
			}
		}
	case strings.HasPrefix(m.editor.Value(), "/model "):
		for _, name := range m.known.models {
			if strings.HasPrefix(name, word) {
				items = append(items, item{text: name})
			}
		}
	case word != "":
		add(m.known.syscalls)
		add(m.known.skills)
	}
	return items
}

// suggest shows what a command or a file could be while it is written.
func (m *screen) suggest() {
	m.menu = menu{at: -1}
	if word, first := m.word(); strings.HasPrefix(word, "@") || first && strings.HasPrefix(word, "/") {
		m.menu = menu{word: word, items: m.candidates(word, first), at: -1}
	}
}

// complete completes the word at the cursor as far as it is certain, and then goes through what is
// possible.
func (m *screen) complete(step int) {
	if m.menu.at >= 0 && len(m.menu.items) > 1 {
		was := m.menu.items[m.menu.at].text
		m.menu.at = (m.menu.at + step + len(m.menu.items)) % len(m.menu.items)
		m.replace(was, m.menu.items[m.menu.at].text)
		return
	}
	word, first := m.word()
	items := m.candidates(word, first)
	m.menu = menu{word: word, items: items, at: -1}
	switch common := commonPrefix(items); {
	case len(items) == 0:
		if m.known.syscalls == nil { // the kernel hasn't answered yet
			m.early = m.editor.Value()
		}
	case len(items) == 1:
		text := items[0].text
		if !strings.HasSuffix(text, "/") {
			text += " "
		}
		m.replace(word, text)
		m.menu = menu{}
		m.suggest()
	case len(common) > len(word):
		m.replace(word, common)
		m.menu.word = common
	default:
		m.menu.at = 0
		if step < 0 {
			m.menu.at = len(items) - 1
		}
		m.replace(word, items[m.menu.at].text)
	}
}

// replace puts another word in the place of the one before the cursor.
func (m *screen) replace(word, other string) {
	for range []rune(word) {
		m.editor, _ = m.editor.Update(tea.KeyPressMsg{Code: tea.KeyBackspace})
	}
	m.editor.InsertString(other)
}

func commonPrefix(items []item) string {
	if len(items) == 0 {
		return ""
	}
	common := items[0].text
	for _, i := range items[1:] {
		for !strings.HasPrefix(i.text, common) {
			common = common[:len(common)-1]
		}
	}
	return strings.ToValidUTF8(common, "")
}

// maxMenu is how many lines a menu has.
const maxMenu = 8

// menuLines returns the lines of the menu, around what was chosen.
func (m *screen) menuLines() (lines []string) {
	items := m.menu.items
	if len(items) < 2 && m.menu.at < 0 && (len(items) == 0 || items[0].text == m.menu.word) {
		return nil
	}
	from := min(max(m.menu.at-maxMenu/2, 0), max(len(items)-maxMenu, 0))
	width := 0
	for _, i := range items[from:min(from+maxMenu, len(items))] {
		width = max(width, terminal.Columns(i.text))
	}
	for n, i := range items[from:min(from+maxMenu, len(items))] {
		mark, style := "  ", terminal.Faint
		if from+n == m.menu.at {
			mark, style = "› ", terminal.Plain
		}
		line := mark + terminal.Pad(visible.Text(i.text), width) + "  " + visible.Text(i.about)
		lines = append(lines, m.out.Paint(style, m.transcript.clip(strings.TrimRight(line, " "))))
	}
	if more := len(items) - from - maxMenu; more > 0 {
		lines = append(lines, m.out.Paint(terminal.Faint, "  and "+terminal.Count(more, "more", "more")))
	}
	return lines
}
