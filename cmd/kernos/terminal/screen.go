// Package terminal shows texts and data to a person: lines cut to the width of a terminal, colours, tables, JSON,
// Markdown and progress. Where the output isn't a terminal, nothing is cut or coloured.
//
//	printer.go, template.go   the data of an answer, as the flags -o, --jq and --json choose
//	present.go, sentence.go   an answer as its definition presents it: a table, or one line
//	markdown.go, github.go    Markdown as its text grows; code.go colours programs in it
//	screen.go, table.go       lines and tables; region.go repeats them in their place, bar.go shows progress
//	ask.go                    questions to a person
//
// # Goroutines
//
//   - Reading an answer, one per question: [Ask] starts it, and it ends when a line was typed, or with the process.
package terminal

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/term"

	"kernos/internal/exit"
	"kernos/internal/visible"
)

// A Screen is where a command writes its output.
type Screen struct {
	Out, Err io.Writer
	Width    int // columns of the terminal; 0 if the output isn't one, and lines are not cut
	Colour   bool
	Now      time.Time

	remarked map[string]bool // notes of answers
}

// NewScreen returns a screen for output and for notes.
func NewScreen(out, notes io.Writer) *Screen {
	s := &Screen{Out: out, Err: notes, Now: time.Now()}
	if width := widthOf(out); width > 0 {
		s.Width = max(width, 40)
		s.Colour = os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
	}
	return s
}

// widthOf returns the columns of a terminal, or 0 if a writer isn't one.
func widthOf(w io.Writer) int {
	file, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(file.Fd())) {
		return 0
	}
	if columns, _, err := term.GetSize(int(file.Fd())); err == nil && columns > 0 {
		return columns
	}
	return 80
}

// IsTerminal reports whether the output is a terminal.
func (s *Screen) IsTerminal() bool { return s.Width > 0 }

// Note prints a remark that isn't part of the output.
func (s *Screen) Note(format string, args ...any) {
	fmt.Fprintf(s.Err, "kernos: "+format+"\n", args...)
}

// Remark prints the note of an answer, once: other pages and rounds repeat it.
func (s *Screen) Remark(note string) {
	if note == "" || s.remarked[note] {
		return
	}
	if s.remarked == nil {
		s.remarked = make(map[string]bool)
	}
	s.remarked[note] = true
	s.Note("%s", visible.Text(note))
}

// Repeat has the next round of an answer written to out. On a terminal, where each round takes the place of the one before,
// its notes are part of it.
func (s *Screen) Repeat(out io.Writer) {
	s.Out, s.Now = out, time.Now()
	if s.IsTerminal() {
		s.Err, s.remarked = out, nil
	}
}

// Line writes a line.
func (s *Screen) Line(text string) error { return s.Write(text + "\n") }

// Write writes a text as it is.
func (s *Screen) Write(text string) error {
	_, err := io.WriteString(s.Out, text)
	return exit.Wrap(err)
}

// JSON writes a value, indented.
func (s *Screen) JSON(value []byte) error {
	var text bytes.Buffer
	if err := json.Indent(&text, value, "", "  "); err != nil {
		return exit.Wrap(err)
	}
	return s.Line(text.String())
}

// A Style is how a terminal shows a text.
type Style string

// The styles.
const (
	Plain  Style = ""
	Bold   Style = "1"
	Faint  Style = "2"
	Strong Style = "1;33"
	Red    Style = "31"
	Green  Style = "32"
	Yellow Style = "33"
	Blue   Style = "34"
	Cyan   Style = "36"

	Italic     Style = "3"
	Underlined Style = "4"
	Struck     Style = "9"
)

// Paint gives a text a style, if the screen has colours.
func (s *Screen) Paint(st Style, text string) string {
	if !s.Colour || st == Plain || text == "" {
		return text
	}
	return "\x1b[" + string(st) + "m" + text + "\x1b[0m"
}
