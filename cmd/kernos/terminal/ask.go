package terminal

import (
	"bufio"
	"context"
	"errors"
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

// AskSecret asks a person for a secret, without showing it, or reads it from an input that isn't a terminal, without the last
// line break. It is an error if there is none.
func AskSecret(ctx context.Context, from io.Reader, people io.Writer, question string) (text string, err error) {
	if in := Person(from); in != nil {
		text, err = Ask(ctx, in, people, question, true)
	} else if data, readErr := io.ReadAll(io.LimitReader(from, maxSecret)); readErr == nil {
		text = strings.TrimRight(string(data), "\r\n")
	}
	if text == "" && err == nil {
		err = errors.New("nothing was given: type it, or send it to standard input")
	}
	return text, err
}

// maxSecret is how much is read of a secret: more than any syscall takes.
const maxSecret = 64 << 10

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
