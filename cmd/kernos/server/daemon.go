// Package server finds the kernel that a command line means, and connects to it: the daemon of this user, which is
// started if it has to be; the server of a context; or, for commands that need no daemon, a kernel in this process.
// It runs those kernels, too: the daemon of kernos serve, and the kernel of kernos pipe --inline.
//
//	k, err := server.Open(ctx, server.Options{})
//	defer k.Close()
//	data, err := k.Call(ctx, request, nil)         // what every kernel has
//	catalog, err := k.Discover(ctx, cache)         // what this one has
//	err = k.Stream(ctx, call, each)
//
// Every call goes through package client, over a WebSocket. Lines of messages are for kernos pipe and
// kernos handle, and for the operator of a daemon that has no place left. A daemon has one socket for both.
//
//	contexts.go, server.go   which server is meant
//	kernel.go, request.go    a connection to it, and requests
//	start.go, stop.go        the life of a daemon
//	serve.go, inline.go      a kernel in this process, and its log in logfile.go
//
// # Goroutines
//
//   - Listening for signals, returning unused memory to the system, and reporting to systemd, one each: kernos serve starts
//     them, and they end before it does.
//   - Serving a kernel in this process, and its standard input, one each: kernos pipe --inline starts them. The input's
//     ends with the process if it can't be interrupted.
//   - What the end of a context causes: a daemon that is starting isn't waited for.
package server

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"syscall"
	"time"

	"kernos/cmd/kernos/service"
	"kernos/cmd/kernos/settings"
	"kernos/daemon"
	"kernos/internal/backoff"
	"kernos/internal/exit"
	"kernos/internal/patience"
	"kernos/message"
	"kernos/transport/unix"
)

// A Daemon is the daemon of a home, whether or not it is running.
type Daemon struct {
	daemon.Home
	Socket string

	// own is the socket in the runtime directory of this process. The daemon may have been
	// started with another runtime directory, and then Socket is there.
	own string
}

// findDaemon finds the daemon of the home that the environment names. The home must be usable.
func findDaemon() (*Daemon, error) {
	home, err := settings.UsableHome()
	if err != nil {
		return nil, err
	}
	d, err := DaemonOf(home)
	return d, exit.Wrap(err)
}

// DaemonOf returns the daemon of a home.
func DaemonOf(home daemon.Home) (*Daemon, error) {
	d := &Daemon{Home: home}
	var err error
	if d.own, err = home.Socket(); err == nil {
		d.Inspect()
	}
	return d, err
}

// Inspect finds the socket of the daemon, and what it reports of itself if it is running.
func (d *Daemon) Inspect() (info unix.Info, running bool) {
	d.Socket, info, running = d.FindDaemon(d.own)
	return info, running
}

// IsElsewhere reports whether the daemon was started with another runtime directory than that of
// this process.
func (d *Daemon) IsElsewhere() bool { return d.Socket != d.own }

// Service returns the service of the home, whether or not it is installed.
func (d *Daemon) Service() *service.Service { return service.Of(d.Home) }

// Asleep reports whether no daemon runs, and a connection would start the service of the home. A command that only wants to know
// whether a daemon runs doesn't connect then.
func (d *Daemon) Asleep() bool {
	_, running := d.Inspect()
	return !running && d.Service().Listens()
}

// ErrNotRunning is the error for a command that needs a daemon where none is running.
var ErrNotRunning = errors.New("no daemon is running; kernos serve starts one, and so does a command that needs one")

// Unseen returns the error for a daemon that has the store and whose socket can't be seen from
// here, or nil. A command that has the store open is not a daemon.
func (d *Daemon) Unseen() error {
	holder, held := d.Holder()
	if !held || holder.Address == "" {
		return nil
	}
	return unreachable(fmt.Errorf(
		"%s (process %d, since %s) serves %s, and its socket %s is not seen from here; use its XDG_RUNTIME_DIR, or end it with kill %d",
		holder.Command, holder.PID, holder.Since.Local().Format(time.DateTime), d.Dir, holder.Address, holder.PID))
}

func unreachable(err error) error { return &exit.Error{Status: exit.Unreachable, Cause: err} }

// StartTime is how long a client waits for a daemon that is starting.
func StartTime() time.Duration { return patience.For(10 * time.Second) }

// EndTime is how long a client waits for a daemon that is shutting down, which may finish
// running calls first.
func EndTime() time.Duration { return StartTime() + unix.DefaultGrace }

// Retry makes attempts until one reports that another one would not help, with pauses that
// grow. The context of an attempt ends after the given time, and the last error is returned.
func Retry(ctx context.Context, within time.Duration, attempt func(context.Context) (again bool, err error)) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	pauses := backoff.Backoff{First: 2 * time.Millisecond, Longest: 100 * time.Millisecond}
	for {
		if again, err := attempt(ctx); !again || !pauses.Wait(ctx.Done()) {
			return err
		}
	}
}

// Connect connects to the daemon if it is running; if not, the connection is nil. It waits for
// a daemon that is starting, and for one that is shutting down to be gone.
func (d *Daemon) Connect(ctx context.Context) (conn *unix.Conn, err error) {
	err = Retry(ctx, EndTime(), func(waiting context.Context) (again bool, err error) {
		info, running := d.Inspect()
		// The lock of a running daemon may have been deleted, so a daemon is absent only if it
		// doesn't answer either.
		conn, err = new(unix.Dialer).Dial(waiting, d.Socket)
		switch {
		case err == nil, !running && absent(err):
			return false, nil
		case !absent(err) && !errors.Is(err, message.ErrServerStopping) && waiting.Err() == nil:
			return false, unreachable(err)
		}
		return true, unreachable(fmt.Errorf(
			"the daemon (process %d) has the socket %s and does not answer; it may be finishing what runs: try again, or end it with kill %d", info.PID, d.Socket, info.PID))
	})
	if err != nil && ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return conn, err
}

// absent reports whether an error means that no daemon answers at the moment.
func absent(err error) bool {
	for _, e := range []error{fs.ErrNotExist, syscall.ECONNREFUSED, syscall.ECONNRESET, syscall.EPIPE, syscall.EAGAIN} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}
