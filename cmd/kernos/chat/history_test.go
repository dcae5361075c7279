package chat

import (
	"io"
	"os"
	"path/filepath"
	"testing"

	tea "charm.land/bubbletea/v2"

	"kernos/cmd/kernos/terminal"
)

// The file of the history has no input that may have a credential in it, also none from before. The conversation in which
// it was typed still has it.
func TestTheHistoryKeepsNoCredentials(t *testing.T) {
	const secret = "remember my bank password is swordfish"
	file := filepath.Join(t.TempDir(), "chat-history")
	if err := os.WriteFile(file, []byte(`"first"`+"\n"+`"token: ghp_0123456789abcdef0123456789abcdef0123"`+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	h := openHistory(file)
	h.add(secret)
	h.add("last")
	if text, err := os.ReadFile(file); err != nil || string(text) != `"first"`+"\n"+`"last"`+"\n" {
		t.Errorf("the file has %s, %v", text, err)
	}
	h.move(true, "")
	if text, ok := h.move(true, ""); !ok || text != secret {
		t.Errorf("before the last input is %q, %v", text, ok)
	}
}

// Ctrl-R finds the latest input that has what is typed, and then earlier ones. Esc goes back, other keys edit what was found.
func TestTheHistoryIsSearched(t *testing.T) {
	m := newScreen(t.Context(), nil, new(Options), terminal.NewScreen(io.Discard, io.Discard))
	m.Update(tea.WindowSizeMsg{Width: 80, Height: 24})
	m.history.all = []string{"list my notes", "what is new?", "Note this", "bye"}
	m.history.at = len(m.history.all)
	m.editor.SetValue("a draft")
	ctrl := func(r rune) tea.KeyPressMsg { return tea.KeyPressMsg{Code: r, Mod: tea.ModCtrl} }
	for _, step := range []struct {
		key          tea.KeyPressMsg
		text, search string
	}{
		{ctrl('r'), "a draft", ""},
		{tea.KeyPressMsg{Code: 'n', Text: "n"}, "Note this", "n"},
		{tea.KeyPressMsg{Code: 'o', Text: "o"}, "Note this", "no"},
		{ctrl('r'), "list my notes", "no"},
		{ctrl('r'), "list my notes", "no (nothing found)"},
		{tea.KeyPressMsg{Code: tea.KeyBackspace}, "Note this", "n"},
		{tea.KeyPressMsg{Code: 'x', Text: "x"}, "Note this", "nx (nothing found)"},
		{tea.KeyPressMsg{Code: tea.KeyEscape}, "a draft", "none"},
		{ctrl('r'), "a draft", ""},
		{tea.KeyPressMsg{Code: 'w', Text: "w"}, "what is new?", "w"},
		{ctrl('c'), "a draft", "none"},
		{ctrl('r'), "a draft", ""},
		{tea.KeyPressMsg{Code: 'w', Text: "w"}, "what is new?", "w"},
		{tea.KeyPressMsg{Code: tea.KeyUp}, "list my notes", "none"},
	} {
		m.Update(step.key)
		search := "none"
		if m.searching != nil {
			search = m.searching.line()[len("search: "):]
			search = search[:len(search)-len(" · Ctrl-R earlier · Enter sends · Esc goes back")]
		}
		if got := m.editor.Value(); got != step.text || search != step.search {
			t.Errorf("after %s: the editor has %q, the search is %q; want %q, %q", step.key, got, search, step.text, step.search)
		}
	}
}

// A question takes no keys that are typed into a search.
func TestASearchAnswersNoQuestion(t *testing.T) {
	m := newScreen(t.Context(), nil, new(Options), terminal.NewScreen(io.Discard, io.Discard))
	m.Update(tea.KeyPressMsg{Code: 'r', Mod: tea.ModCtrl})
	m.Update(eventMsg{complete: &entry{Type: "approval-request", Call: "one", Name: "Http.Fetch"}})
	m.pending = nil
	m.Update(printedMsg{})
	if m.offer != nil {
		t.Error("it asks while the history is searched")
	}
	m.Update(tea.KeyPressMsg{Code: tea.KeyEscape})
	if m.offer == nil {
		t.Error("it doesn't ask after the search")
	}
}
