// Command kernos is the message kernel for AI agents. See kernos help.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/debug"

	"golang.org/x/term"

	"kernos/message"
)

// Exit statuses. They are part of the interface.
const (
	exitError       = 1   // an error message came back
	exitUsage       = 2   // the command line is wrong
	exitForbidden   = 3   // the server does not let the caller do this
	exitUnreachable = 4   // the server can't be reached
	exitInvalid     = 5   // parameters that the syscall does not take
	exitUnknown     = 6   // no such syscall
	exitTaken       = 75  // of a daemon that a client has started: another one was first
	exitInterrupted = 130 // by a signal
)

func main() {
	// What lives long is small, and what a message leaves behind is garbage at once:
	// collecting every 16 MB instead of every 4 costs some memory and saves time.
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(400)
	}
	os.Exit(run(context.Background(), os.Args[1:]))
}

func run(ctx context.Context, args []string) int {
	// A pipe into kernos with nothing else said is meant for kernos pipe.
	if len(args) == 0 && !term.IsTerminal(int(os.Stdin.Fd())) {
		args = []string{"pipe"}
	}
	root := rootCommand()
	root.SetArgs(asModule(root, args))
	helped := checkHelp(root)
	err := root.ExecuteContext(ctx)
	if err == nil {
		err = helped()
	}
	if err == nil {
		return 0
	}
	status := exitUsage
	if s, ok := errors.AsType[*exitStatus](err); ok {
		status = s.status
	}
	if text := err.Error(); text != "" {
		fmt.Fprintln(os.Stderr, "kernos: "+visibleLines(text)) // servers elsewhere may have had a say in it
	}
	return status
}

// exitStatus is an error with the status to leave with. One without a cause says
// nothing: all has been said.
type exitStatus struct {
	status int
	cause  error
}

func (e *exitStatus) Error() string {
	if e.cause == nil {
		return ""
	}
	return e.cause.Error()
}

func (e *exitStatus) Unwrap() error { return e.cause }

// statusOf is the exit status for an error that a syscall would have answered with.
func statusOf(e *message.Error) int {
	switch e.Code {
	case 404:
		return exitUnknown
	case 400, 422:
		return exitInvalid
	}
	return exitError
}
