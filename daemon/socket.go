package daemon

import (
	"context"
	"os"
	"time"

	"golang.org/x/crypto/ssh"

	"kernos/transport"
	httpd "kernos/transport/http"
	"kernos/transport/unix"
)

// socketDoor serves NDJSON over a unix socket. Its lock keeps a second daemon from the home.
type socketDoor struct {
	listener *unix.Listener
	server   *unix.Server
}

// takeSocket makes the home and locks its socket. The error is a *unix.Running if another
// daemon serves the home.
func takeSocket(d *Daemon) (*socketDoor, error) {
	if err := d.home.Check(); err != nil {
		return nil, err
	}
	own, err := d.home.Socket()
	if err != nil {
		return nil, err
	}
	if socket, other, running := d.home.FindDaemon(own); running && socket != own {
		return nil, &unix.Running{Path: socket, Info: other}
	}
	if err := d.home.Make(); err != nil {
		return nil, err
	}
	info := d.opts.Socket.Info
	info.PID, info.Version, info.Started = os.Getpid(), d.opts.Version, d.started.Truncate(time.Millisecond)
	info.Home, info.Origin, info.Auth = d.home.Dir, string(d.home.Origin), d.signed()
	for _, k := range d.opts.Socket.Keys {
		info.Keys = append(info.Keys, ssh.FingerprintSHA256(k))
	}
	listener, err := unix.Listen(own, info)
	if err != nil {
		return nil, err
	}
	return &socketDoor{listener: listener}, nil
}

// open makes the server.
func (s *socketDoor) open(d *Daemon) {
	l := &d.opts.Limits
	s.server = unix.NewServer(d.kernel, &unix.Options{
		MaxConnections: l.MaxConnections, Idle: l.Idle, Stall: l.Stall, Line: l.LineTime, FrameRate: l.FrameRate, Grace: l.Grace,
		Keys: d.opts.Socket.Keys, Log: d.opts.Log,
	})
}

func (s *socketDoor) urls() []string { return []string{"unix://" + s.listener.Path()} }

func (s *socketDoor) serve(ctx context.Context) error { return s.server.Serve(ctx, s.listener) }

func (s *socketDoor) close() error { return s.listener.Close() }

func (s *socketDoor) stats() []transport.Stats { return []transport.Stats{s.server.Stats()} }

func (s *socketDoor) collect(m *httpd.Metrics) {
	now := s.server.Stats()
	m.Gauge("kernos_socket_connections", "Connections over the socket of messages.", float64(now.Connections))
	m.Counter("kernos_socket_accepted_total", "Connections over the socket of messages that were served.", float64(now.Accepted))
	countEnded(m, "kernos_socket_closed_total", "Connections over the socket of messages that the daemon has refused or closed.", now)
}
