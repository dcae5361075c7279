package main

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"time"

	"kernos/cmd/kernos/request"
	"kernos/cmd/kernos/settings"
	"kernos/daemon"
	"kernos/message"
	"kernos/transport/unix"
)

type caller = request.Caller

// openKernel returns a caller of the daemon or, where none runs, of a kernel in this
// process, and what closes it. In this process, what it asks is not recorded.
func openKernel(ctx context.Context) (caller, func() error, error) { return openCaller(ctx, false) }

// openRecorded is openKernel for what changes something: all of it is recorded.
func openRecorded(ctx context.Context) (caller, func() error, error) { return openCaller(ctx, true) }

func openCaller(ctx context.Context, record bool) (caller, func() error, error) {
	r := &retrying{record: record}
	return r.ask, r.close, r.open(ctx)
}

// inUse is how long a store that another process has is waited for: most commands have it for
// some milliseconds only.
const inUse = 2 * time.Second

// retrying is a caller that daemons may come and go under. What one that is about to end has
// not begun, the next one is asked, or the kernel in this process where none is. And if that
// finds its store in use, a daemon may have it that has just begun, or a command that is
// about to end.
type retrying struct {
	record    bool
	call      caller
	done      func() error
	inProcess bool
}

// open finds a kernel to call.
func (r *retrying) open(ctx context.Context) error {
	client, err := openDaemon(ctx)
	if err != nil {
		return err
	}
	r.inProcess = client == nil
	if client != nil {
		r.call, r.done = client.Call, client.Close
		return nil
	}
	waiting, cancel := context.WithTimeout(ctx, inUse)
	defer cancel()
	for wait := waits(waiting); ; {
		if r.call, r.done, err = openInProcess(r.record); err == nil || !busy(err) || !wait() {
			return err
		}
	}
}

func (r *retrying) close() error {
	if r.done == nil {
		return nil
	}
	done := r.done
	r.done = nil
	return done()
}

func (r *retrying) ask(ctx context.Context, request message.Message, event func(message.Message)) (message.Message, error) {
	waiting, cancel := context.WithTimeout(ctx, inUse)
	defer cancel()
	for wait := waits(waiting); ; {
		begun := false
		outcome, err := r.call(ctx, request, func(m message.Message) {
			begun = true
			if event != nil {
				event(m)
			}
		})
		if begun || !errors.Is(err, unix.ErrStopping) && !(r.inProcess && unavailable(outcome)) || !wait() {
			return outcome, err
		}
		if err := errors.Join(r.close(), r.open(ctx)); err != nil {
			return outcome, err
		}
	}
}

// busy reports whether a store can't be opened for the moment.
func busy(err error) bool {
	e, _ := message.ErrorOf(err)
	return e.Code == 503
}

// unavailable reports whether an outcome is that of a kernel which has no store.
func unavailable(outcome message.Message) bool {
	if outcome.Kind != message.KindError {
		return false
	}
	e, err := message.ParseError(outcome.Data)
	return err == nil && e.Code == 503
}

// openDaemon returns a client of the daemon, or nil if none runs.
func openDaemon(ctx context.Context) (*unix.Client, error) {
	a, err := findAddress()
	if err != nil {
		return nil, err
	}
	conn, err := a.connect(ctx)
	if conn == nil {
		return nil, err
	}
	return unix.NewClient(conn), nil
}

// openInProcess opens a kernel in this process.
func openInProcess(record bool) (caller, func() error, error) {
	home, err := settings.Home()
	if err != nil {
		return nil, nil, err
	}
	d, err := daemon.Open(&daemon.Options{
		Home: home.Dir, Origin: home.Origin, Version: version, Unrecorded: !record,
		Keys: daemon.Keys{Agent: os.Getenv("SSH_AUTH_SOCK")}, StoreOpened: func() { setGarbage(inlineGarbage) },
	})
	if err != nil {
		return nil, nil, err
	}
	return d.Call, d.Close, nil
}

// operatorLog is where a process in the foreground says what its callers must not see.
func operatorLog(level *slog.LevelVar) *slog.Logger {
	level.Set(slog.LevelWarn)
	return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level}))
}
