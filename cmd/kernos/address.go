package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"syscall"
	"time"

	"kernos/cmd/kernos/exit"
	"kernos/cmd/kernos/settings"
	"kernos/daemon"
	"kernos/internal/backoff"
	"kernos/transport/unix"
)

// An address is a home, and where its daemon is reached.
type address struct {
	daemon.Home
	socket string

	// own is the socket in the runtime directory of this process. The daemon may have been
	// started with another one, and then socket is there.
	own string
}

// findAddress finds the home that the environment names, and its socket. The home must be
// usable.
func findAddress() (*address, error) {
	home, err := settings.UsableHome()
	if err != nil {
		return nil, err
	}
	a := &address{Home: home}
	if a.own, err = home.Socket(); err != nil {
		return nil, exit.Wrap(err)
	}
	a.seek()
	return a, nil
}

// seek finds the socket of the daemon, and what it reports of itself if it is running.
func (a *address) seek() (info unix.Info, running bool) {
	a.socket, info, running = a.FindDaemon(a.own)
	return info, running
}

// hidden is the error of a daemon that has the store and can't be reached from here, or nil.
// A command that has the store for itself is none.
func (a *address) hidden() error {
	holder, held := a.Holder()
	if !held || holder.Address == "" {
		return nil
	}
	return &exit.Error{Status: exit.Unreachable, Cause: fmt.Errorf(
		"%s (process %d, since %s) serves %s, and its socket %s is not seen from here; use its XDG_RUNTIME_DIR, or end it with kill %d",
		holder.Command, holder.PID, holder.Since.Local().Format(time.DateTime), a.Dir, holder.Address, holder.PID)}
}

const (
	// patience is how long a client waits for a daemon that begins.
	patience = 10 * time.Second

	// leaving is how long it waits for one that ends, and has until then to finish what runs.
	leaving = patience + unix.DefaultGrace
)

// waits returns what waits longer each time, as long as ctx lasts.
func waits(ctx context.Context) func() bool {
	pauses := backoff.Backoff{First: 2 * time.Millisecond, Longest: 100 * time.Millisecond}
	return func() bool { return pauses.Wait(ctx.Done()) }
}

// connect returns a connection to the daemon that runs, or nil if none does. It waits for
// one that begins, and for one that ends to be gone.
func (a *address) connect(ctx context.Context) (*unix.Conn, error) {
	waiting, cancel := context.WithTimeout(ctx, leaving)
	defer cancel()
	wait := waits(waiting)
	for {
		info, running := a.seek()
		// The lock may have been swept away under a daemon that runs, so nobody is absent who
		// has not been asked.
		conn, err := new(unix.Dialer).Dial(waiting, a.socket)
		if err == nil {
			return conn, nil
		}
		if !running && absent(err) {
			return nil, nil
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if !absent(err) && !errors.Is(err, unix.ErrStopping) && waiting.Err() == nil {
			return nil, &exit.Error{Status: exit.Unreachable, Cause: err}
		}
		if !wait() {
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			return nil, &exit.Error{Status: exit.Unreachable, Cause: fmt.Errorf(
				"the daemon (process %d) has the socket %s and does not answer; it may be finishing what runs: try again, or end it with kill %d", info.PID, a.socket, info.PID)}
		}
	}
}

// absent reports whether an error says that nobody is there to answer, for the moment.
func absent(err error) bool {
	for _, e := range []error{fs.ErrNotExist, syscall.ECONNREFUSED, syscall.ECONNRESET, syscall.EPIPE, syscall.EAGAIN} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}
