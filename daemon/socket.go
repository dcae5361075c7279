package daemon

import (
	"context"
	"os"
	"time"

	"golang.org/x/crypto/ssh"

	"kernos/transport/unix"
)

// lockSocket makes the home and locks its socket. The error is a *unix.Running if another
// daemon serves the home.
func (d *Daemon) lockSocket() (*unix.Listener, error) {
	if d.opts.doors != nil {
		return d.opts.doors.socket, nil
	}
	return lockSocket(d.home, &d.opts, d.started)
}

func lockSocket(home Home, o *Options, started time.Time) (*unix.Listener, error) {
	if err := home.Check(); err != nil {
		return nil, err
	}
	own, err := home.Socket()
	if err != nil {
		return nil, err
	}
	if socket, other, running := home.FindDaemon(own); running && socket != own {
		return nil, &unix.Running{Path: socket, Info: other}
	}
	if err := home.Make(); err != nil {
		return nil, err
	}
	info := o.Socket.Info
	info.PID, info.Version, info.Started = os.Getpid(), o.Version, started.Truncate(time.Millisecond)
	info.Home, info.Origin, info.Auth = home.Dir, string(home.Origin), o.signed()
	for _, k := range o.Socket.Keys {
		info.Keys = append(info.Keys, ssh.FingerprintSHA256(k))
	}
	if l := o.Socket.Listener; l != nil {
		return unix.Adopt(l, own, info)
	}
	return unix.Listen(own, info)
}

// openSocket returns the server that serves NDJSON over the socket, and hands on what speaks HTTP.
func (d *Daemon) openSocket() server {
	l := &d.opts.Limits
	d.socket = unix.NewServer(d.kernel, &unix.Options{
		MaxConnections: l.MaxConnections, Idle: l.Idle, Stall: l.Stall, Line: l.LineTime, FrameRate: l.FrameRate, Grace: l.Grace,
		Keys: d.opts.Socket.Keys, Log: d.opts.Log,
	})
	return server{
		urls:  []string{"unix://" + d.lock.Path()},
		wires: []wire{{"socket", "the socket", d.socket.Stats}},
		serve: func(ctx context.Context) error { return d.socket.Serve(ctx, d.lock) },
		close: func() error { return nil }, // the lock is kept until the store is closed
	}
}
