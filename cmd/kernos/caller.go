package main

import (
	"context"
	"errors"
	"log/slog"
	"os"

	"kernos/kernel"
	"kernos/message"
)

// A caller asks a kernel: it sends a request, hands over the events that come for it, and
// returns the outcome, a reply or an error message. The error is for a kernel that can't
// be reached.
type caller func(ctx context.Context, request message.Message, event func(message.Message)) (message.Message, error)

// openKernel returns a caller of a kernel in this process, on the state of the home
// directory, and what closes it. What it asks is not recorded.
func openKernel() (caller, func() error, error) { return openCaller(false) }

// openRecorded is openKernel for what changes something: all of it is recorded.
func openRecorded() (caller, func() error, error) { return openCaller(true) }

func openCaller(record bool) (caller, func() error, error) {
	log := slog.New(slog.DiscardHandler) // whoever calls is the operator, and gets the error
	s, err := findState(log, defaultRetention)
	if err != nil {
		return nil, nil, err
	}
	r, err := registry(s)
	if err != nil {
		return nil, nil, err
	}
	settings := kernel.Options{Store: s.store, Blobs: s, Log: log}
	if record {
		if settings.Recorder, err = s.record(); err != nil {
			return nil, nil, errors.Join(err, s.close())
		}
	}
	k := kernel.New(r, &settings)
	call := func(ctx context.Context, request message.Message, event func(message.Message)) (message.Message, error) {
		k.Stamp(&request)
		var outcome message.Message
		k.Handle(ctx, request, func(m message.Message) {
			if m.Kind.Answers() {
				outcome = m
			} else if event != nil {
				event(m)
			}
		})
		return outcome, nil
	}
	return call, s.close, nil
}

// operatorLog is where a process in the foreground says what its callers must not see.
func operatorLog() *slog.Logger {
	return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
}
