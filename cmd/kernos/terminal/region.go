package terminal

import (
	"os"
	"strconv"
	"strings"

	"github.com/charmbracelet/x/ansi"
	"golang.org/x/term"
)

// A Region is where a text is shown that changes. On a terminal each text replaces the one before,
// and is cut to the size of the terminal. Elsewhere a text is written if it differs from that.
type Region struct {
	screen *Screen
	before string
	lines  int // number of lines that are shown
}

// NewRegion returns a place at the end of what the screen shows.
func NewRegion(s *Screen) *Region { return &Region{screen: s} }

// Show shows a text, which ends with a newline.
func (p *Region) Show(text string) error {
	if text == p.before {
		return nil
	}
	p.before = text
	if !p.screen.IsTerminal() {
		return p.screen.Write(text)
	}
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	if rows := heightOf(p.screen); rows > 1 && len(lines) >= rows {
		lines = lines[:rows-1] // lines that have scrolled off the terminal can't be replaced
	}
	var b strings.Builder
	if p.lines > 0 {
		b.WriteString("\x1b[" + strconv.Itoa(p.lines) + "A")
	}
	for _, line := range lines {
		b.WriteString("\r" + ansi.Truncate(line, p.screen.Width, "…") + "\x1b[K\n")
	}
	b.WriteString("\x1b[J")
	p.lines = len(lines)
	return p.screen.Write(b.String())
}

// heightOf returns the rows of a terminal, or 0 if they aren't known.
func heightOf(s *Screen) int {
	file, ok := s.Out.(*os.File)
	if !ok {
		return 0
	}
	_, rows, err := term.GetSize(int(file.Fd()))
	if err != nil {
		return 0
	}
	return rows
}
