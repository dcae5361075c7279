package terminal

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/term"
)

// Person returns the terminal that an input is, or nil if no person can be asked there.
func Person(in io.Reader) *os.File {
	if file, ok := in.(*os.File); ok && term.IsTerminal(int(file.Fd())) {
		return file
	}
	return nil
}

// Agrees asks a question, and reports whether the answer begins with a y. After Ctrl-D the error is io.EOF.
func Agrees(ctx context.Context, in *os.File, out io.Writer, question string) (bool, error) {
	answer, err := Ask(ctx, in, out, question, false)
	return strings.HasPrefix(strings.ToLower(strings.TrimSpace(answer)), "y"), err
}

// Ask writes a question and returns the line that a person types on the terminal in. A hidden answer isn't
// shown. It returns io.EOF after Ctrl-D. When ctx ends, Ask returns its error and leaves the terminal as it
// was; the program should end then, because a read from a terminal can't be given up.
func Ask(ctx context.Context, in *os.File, out io.Writer, question string, hidden bool) (string, error) {
	if _, err := io.WriteString(out, question); err != nil {
		return "", err
	}
	state, stateErr := term.GetState(int(in.Fd()))
	type answer struct {
		text string
		err  error
	}
	answers := make(chan answer, 1)
	go func() {
		if hidden {
			text, err := term.ReadPassword(int(in.Fd()))
			answers <- answer{string(text), err}
			return
		}
		line, err := bufio.NewReader(in).ReadString('\n')
		answers <- answer{strings.TrimRight(line, "\r\n"), err}
	}()
	var a answer
	select {
	case a = <-answers:
	case <-ctx.Done():
		if a.err = ctx.Err(); stateErr == nil {
			_ = term.Restore(int(in.Fd()), state)
		}
	}
	if hidden || a.err != nil { // the answer hasn't ended the line
		fmt.Fprintln(out)
	}
	return a.text, a.err
}
