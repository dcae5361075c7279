package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"syscall"
	"time"

	"kernos/cmd/kernos/exit"
	"kernos/internal/backoff"
	"kernos/store"
	"kernos/store/pebble"
	"kernos/transport/unix"
)

// An address is where the kernel of an origin keeps its state, and where it is reached.
type address struct {
	home   string // absolute
	origin store.Origin
	dir    string // of the origin
	socket string // "" if nobody has asked for it

	// own is the socket in the runtime directory of this process. The daemon may have been
	// started with another one, and then socket is there.
	own string
}

// findHome finds where the kernel that the environment names keeps its state.
func findHome() (*address, error) {
	dir, origin, err := place()
	if err != nil {
		return nil, err
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return nil, exit.Wrap(err)
	}
	return &address{home: filepath.Dir(dir), origin: origin, dir: filepath.Join(dir, origin.Folder())}, nil
}

// findAddress is findHome with the socket, for whose directory there must be a place. The home
// must be one.
func findAddress() (*address, error) {
	a, err := findHome()
	if err == nil {
		err = checkHome(a.home)
	}
	if err != nil {
		return nil, err
	}
	if a.own, err = unix.Path(a.home, string(a.origin)); err != nil {
		return nil, exit.Wrap(err)
	}
	a.seek()
	return a, nil
}

// seek finds the socket of the daemon, and who that is if one runs. Of one that serves from
// another runtime directory, the lock of its store says where.
func (a *address) seek() (unix.Info, bool) {
	a.socket = a.own
	info, running := unix.Inspect(a.own)
	if running {
		return info, true
	}
	holder, held := a.holder()
	if !held || holder.Address == "" {
		return unix.Info{}, false
	}
	info, running = unix.Inspect(holder.Address)
	if !running || info.Home != a.home || info.Origin != string(a.origin) {
		return unix.Info{}, false
	}
	a.socket = holder.Address
	return info, true
}

// holder returns who has the store, as far as it is known.
func (a *address) holder() (pebble.Holder, bool) { return pebble.HeldBy(filepath.Join(a.dir, "store")) }

// hidden is the error of a daemon that has the store and can't be reached from here, or nil.
// A command that has the store for itself is none.
func (a *address) hidden() error {
	holder, held := a.holder()
	if !held || holder.Address == "" {
		return nil
	}
	return &exit.Error{Status: exit.Unreachable, Cause: fmt.Errorf(
		"%s (process %d, since %s) serves %s, and its socket %s is not seen from here; use its XDG_RUNTIME_DIR, or end it with kill %d",
		holder.Command, holder.PID, holder.Since.Local().Format(time.DateTime), a.home, holder.Address, holder.PID)}
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
