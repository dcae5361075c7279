// Package tty runs a program on a pseudo-terminal, for tests: what they type, and what a person would see.
//
//	terminal := tty.Start(t, exec.Command("kernos", "chat"), 80, 24)
//	terminal.Until("> ")
//	terminal.Type("hello\r")
package tty

import (
	"bytes"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/creack/pty"
	"github.com/hinshun/vt10x"
)

// A Terminal is a pseudo-terminal with a program on it.
type Terminal struct {
	t       testing.TB
	command *exec.Cmd
	pty     interface {
		Write([]byte) (int, error)
		Close() error
	}
	resize func(columns, rows uint16) error
	ended  chan struct{} // closed when the program has ended and all of its output was read

	mu      sync.Mutex
	screen  vt10x.Terminal
	output  bytes.Buffer
	changed chan struct{} // closed at the next output
}

// keyboard matches what asks a terminal for more keys. The emulator would take it for a movement of the
// cursor; a terminal without these keys ignores it.
var keyboard = regexp.MustCompile(`\x1b\[[<>?][0-9]*u`)

// begun matches the beginning of a sequence, of which the rest comes with the next output.
var begun = regexp.MustCompile(`\x1b(\[[<>?]?[0-9]*)?$`)

// finished returns the length of the output without a sequence or a character at its end of which the rest comes
// with the next output. The emulator would drop it.
func finished(output []byte) int {
	if at := begun.FindIndex(output); at != nil {
		return at[0]
	}
	for i := len(output) - 1; i >= max(0, len(output)-utf8.UTFMax); i-- {
		if utf8.RuneStart(output[i]) {
			if !utf8.FullRune(output[i:]) {
				return i
			}
			break
		}
	}
	return len(output)
}

// Keys that a person presses.
const (
	Enter    = "\r"
	Tab      = "\t"
	Escape   = "\x1b"
	CtrlC    = "\x03"
	CtrlD    = "\x04"
	CtrlJ    = "\n"
	CtrlR    = "\x12"
	Up       = "\x1b[A"
	Down     = "\x1b[B"
	ShiftTab = "\x1b[Z"
)

// Start starts a command on a terminal of this size. It is killed when the test ends.
func Start(t testing.TB, command *exec.Cmd, columns, rows int) *Terminal {
	t.Helper()
	file, err := pty.StartWithSize(command, &pty.Winsize{Cols: uint16(columns), Rows: uint16(rows)})
	if err != nil {
		t.Fatal(err)
	}
	x := &Terminal{
		t: t, command: command, pty: file, screen: vt10x.New(vt10x.WithSize(columns, rows)), changed: make(chan struct{}), ended: make(chan struct{}),
		resize: func(columns, rows uint16) error {
			return pty.Setsize(file, &pty.Winsize{Cols: columns, Rows: rows})
		},
	}
	go func() {
		defer close(x.ended)
		buffer := make([]byte, 4096)
		var rest []byte // of the output: an unfinished sequence or character
		for {
			n, err := file.Read(buffer)
			rest = append(rest, buffer[:n]...)
			end := finished(rest)
			x.mu.Lock()
			_, _ = x.screen.Write(keyboard.ReplaceAll(rest[:end], nil))
			rest = rest[end:]
			x.output.Write(buffer[:n])
			close(x.changed)
			x.changed = make(chan struct{})
			x.mu.Unlock()
			if err != nil { // the program has ended
				return
			}
		}
	}()
	t.Cleanup(func() {
		_ = command.Process.Kill() // the process has ended, unless the test has failed
		_ = command.Wait()
		_ = file.Close()
		<-x.ended
	})
	return x
}

// Type types a text.
func (x *Terminal) Type(text string) {
	x.t.Helper()
	if _, err := x.pty.Write([]byte(text)); err != nil {
		x.t.Fatalf("the terminal can't be typed on: %v; it shows\n%s", err, x.Screen())
	}
}

// Submit types a line into a program's empty editor, waits until the editor shows it, and presses Enter. What
// the editor shows only while it is empty is gone then, and is shown again only after the program has taken
// the line. After Type and Enter at once, the screen may still have it from before: programs print output
// above their editor first, and draw the editor anew later.
func (x *Terminal) Submit(line string) {
	x.t.Helper()
	words := strings.Fields(line)
	x.Type(line)
	x.Edits(words[len(words)-1]) // a long line may be wrapped
	x.Type(Enter)
}

// Edits waits until the cursor is after this text.
func (x *Terminal) Edits(text string) {
	x.t.Helper()
	x.When("the cursor after "+text, func(string) bool { return strings.HasSuffix(x.beforeCursor(), text) })
}

// beforeCursor returns what the line of the cursor has before it.
func (x *Terminal) beforeCursor() string {
	x.mu.Lock()
	defer x.mu.Unlock()
	at := x.screen.Cursor()
	line := []rune(strings.Split(x.screen.String(), "\n")[at.Y])
	return strings.TrimRight(string(line[:min(at.X, len(line))]), " ")
}

// Paste pastes a text, as terminals do for programs that want to know.
func (x *Terminal) Paste(text string) {
	x.t.Helper()
	x.Type("\x1b[200~" + text + "\x1b[201~")
}

// Resize gives the terminal another size.
func (x *Terminal) Resize(columns, rows int) {
	x.t.Helper()
	x.mu.Lock()
	x.screen.Resize(columns, rows)
	x.mu.Unlock()
	if err := x.resize(uint16(columns), uint16(rows)); err != nil {
		x.t.Fatal(err)
	}
}

// Screen returns what the terminal shows, without spaces at the ends of lines and empty lines at the end.
func (x *Terminal) Screen() string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.shown()
}

func (x *Terminal) shown() string {
	lines := strings.Split(x.screen.String(), "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	return strings.TrimRight(strings.Join(lines, "\n"), "\n")
}

// Output returns everything that was written to the terminal.
func (x *Terminal) Output() string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.output.String()
}

// patience is how long a test waits for what has to come.
const patience = time.Minute

// Until waits until the terminal shows each of these texts.
func (x *Terminal) Until(texts ...string) {
	x.t.Helper()
	x.When(strings.Join(texts, ", "), func(screen string) bool {
		for _, text := range texts {
			if !strings.Contains(screen, text) {
				return false
			}
		}
		return true
	})
}

// When waits until what the terminal shows is as wanted.
func (x *Terminal) When(what string, wanted func(screen string) bool) {
	x.t.Helper()
	late := time.After(patience)
	for {
		x.mu.Lock()
		screen, changed := x.shown(), x.changed
		x.mu.Unlock()
		if wanted(screen) {
			return
		}
		select {
		case <-changed:
		case <-x.ended:
			if !wanted(x.Screen()) {
				x.t.Fatalf("the program has ended without %s; the terminal shows\n%s", what, x.Screen())
			}
			return
		case <-late:
			x.t.Fatalf("%s doesn't come; the terminal shows\n%s", what, screen)
		}
	}
}

// Wait waits until the program has ended, and returns its exit status.
func (x *Terminal) Wait() int {
	x.t.Helper()
	select {
	case <-x.ended:
	case <-time.After(patience):
		x.t.Fatalf("the program doesn't end; the terminal shows\n%s", x.Screen())
	}
	_ = x.command.Wait()
	return x.command.ProcessState.ExitCode()
}
