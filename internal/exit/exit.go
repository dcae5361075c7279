// Package exit has the exit statuses of kernos, and the error that carries one from where
// something failed to the end of the program.
//
// # Goroutines
//
//   - What a signal causes: the next one ends the process.
package exit

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"
)

// Exit statuses. They are part of the interface.
const (
	Failure     = 1   // an error message came back
	Usage       = 2   // the command line is wrong
	Forbidden   = 3   // the server does not allow it
	Unreachable = 4   // the server can't be reached
	Invalid     = 5   // the syscall does not take these parameters
	Unknown     = 6   // the syscall does not exist
	Taken       = 75  // a daemon that a client started has found another one running
	Interrupted = 130 // a signal interrupted the command
)

// An Error is an error with the status to exit with. Without a cause its text is empty, and
// nothing is printed: everything has been printed already.
type Error struct {
	Status int
	Cause  error
}

func (e *Error) Error() string {
	if e.Cause == nil {
		return ""
	}
	return e.Cause.Error()
}

func (e *Error) Unwrap() error { return e.Cause }

// Wrap gives an error that has no status the status Failure: output that can't be written
// isn't the fault of the command line.
func Wrap(err error) error {
	if _, ok := errors.AsType[*Error](err); ok || err == nil {
		return err
	}
	return &Error{Status: Failure, Cause: err}
}

// OnSignal runs a command that a signal ends in an orderly way: its context is cancelled then, and
// its error has the status Interrupted. A second signal ends the process at once.
func OnSignal(ctx context.Context, command func(context.Context) error) error {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)
	err := command(ctx)
	if err != nil && ctx.Err() != nil {
		return &Error{Status: Interrupted}
	}
	return err
}

// Status returns the exit status for an error: Usage if it has none of its own.
func Status(err error) int {
	if err == nil {
		return 0
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Status
	}
	return Usage
}

// StatusOf returns the exit status for the code of an error that a syscall answered with.
func StatusOf(code int) int {
	switch code {
	case 401, 403:
		return Forbidden
	case 404:
		return Unknown
	case 400, 422:
		return Invalid
	}
	return Failure
}
