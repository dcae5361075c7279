package chat

import (
	"io"
	"strings"
	"testing"

	tea "charm.land/bubbletea/v2"
	"github.com/hinshun/vt10x"

	"kernos/cmd/kernos/terminal"
	"kernos/internal/testkit"
)

// alone is a screen without a server.
type alone struct{ *screen }

func (alone) Init() tea.Cmd { return nil }

// The cursor stays where a person types when lines are printed above the editor.
func TestPrintingLeavesTheCursorInTheEditor(t *testing.T) {
	shown := vt10x.New(vt10x.WithSize(80, 24))
	m := newScreen(t.Context(), nil, new(Options), terminal.NewScreen(io.Discard, io.Discard))
	p := tea.NewProgram(alone{m}, tea.WithContext(t.Context()), tea.WithInput(nil), tea.WithOutput(shown), tea.WithWindowSize(80, 24), tea.WithoutSignalHandler())
	ended := make(chan error, 1)
	go func() {
		_, err := p.Run()
		ended <- err
	}()
	p.Send(tea.KeyPressMsg{Code: 'x', Text: "x"})
	edits := func() bool {
		at := shown.Cursor()
		return strings.HasPrefix(strings.Split(shown.String(), "\n")[at.Y], "> x") && at.X == 3
	}
	testkit.Until(t, "the letter is in the editor", edits)
	for _, line := range []string{"one line", "another line"} {
		p.Send(answered{lines: []string{line}})
		testkit.Until(t, line+" is printed, and the cursor is in the editor", func() bool { return strings.Contains(shown.String(), line) && edits() })
	}
	p.Quit()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
