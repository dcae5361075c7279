package chat

import (
	"io"
	"strings"
	"sync"
	"testing"

	tea "charm.land/bubbletea/v2"
	"github.com/hinshun/vt10x"

	"kernos/cmd/kernos/terminal"
	"kernos/internal/testkit"
)

// alone is a screen without a server.
type alone struct{ *screen }

func (alone) Init() tea.Cmd { return nil }

// A display shows what is written to it.
type display struct {
	mu sync.Mutex
	vt10x.Terminal
}

func (d *display) Write(text []byte) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.Terminal.Write(text)
}

// beforeCursor returns the lines up to the cursor.
func (d *display) beforeCursor() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	at, lines := d.Cursor(), strings.Split(d.String(), "\n")
	return strings.Join(append(lines[:at.Y], lines[at.Y][:at.X]), "\n")
}

// The cursor stays where a person types when lines are printed above the editor.
func TestPrintingLeavesTheCursorInTheEditor(t *testing.T) {
	shown := &display{Terminal: vt10x.New(vt10x.WithSize(80, 24))}
	m := newScreen(t.Context(), nil, new(Options), terminal.NewScreen(io.Discard, io.Discard))
	p := tea.NewProgram(alone{m}, tea.WithContext(t.Context()), tea.WithInput(nil), tea.WithOutput(shown), tea.WithWindowSize(80, 24), tea.WithoutSignalHandler())
	ended := make(chan error, 1)
	go func() {
		_, err := p.Run()
		ended <- err
	}()
	p.Send(tea.KeyPressMsg{Code: 'x', Text: "x"})
	edits := func() bool { return strings.HasSuffix(shown.beforeCursor(), "\n> x") }
	testkit.Until(t, "the letter is in the editor", edits)
	for _, line := range []string{"one line", "another line"} {
		p.Send(answeredMsg{lines: []string{line}})
		testkit.Until(t, line+" is printed, and the cursor is in the editor", func() bool { return strings.Contains(shown.beforeCursor(), line) && edits() })
	}
	p.Quit()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
