package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"time"

	"kernos/client"
	"kernos/cmd/kernos/terminal"
	"kernos/internal/exit"
	"kernos/internal/patience"
	"kernos/transport"
	"kernos/transport/unix"
)

// A Server is the server that a command line means.
type Server struct {
	Target  client.Target
	Daemon  *Daemon // if it is the daemon of this user
	Context string  // the name of its context; "" if its address was given

	TimeLimit time.Duration // how long the caller wants to wait for anything; 0 means no limit
}

// How long a server may take to accept a connection: leastAnswerTime, whatever time limit the caller has, and
// at most answerTime. One that takes longer was suspended, or has far too much to do.
const (
	leastAnswerTime = 3 * time.Second
	answerTime      = 10 * time.Second
)

// FindServer finds the server that the name of a context or a URL means. If both are empty it
// is the server of the current context.
func FindServer(context, url string) (*Server, error) {
	if url != "" {
		t := client.Target{URL: url, Token: os.Getenv("KERNOS_TOKEN")}
		if overTLS(url) {
			t.CAFile = os.Getenv("KERNOS_CA_FILE")
		}
		return &Server{Target: signing(t)}, asUsage(t.Check())
	}
	all, err := ReadContexts()
	if err != nil {
		return new(Server), exit.Wrap(err)
	}
	s := &Server{Context: cmp.Or(context, all.CurrentName())}
	if s.Context != LocalContext {
		t, err := all.target(s.Context)
		s.Target = signing(t)
		return s, asUsage(err)
	}
	if s.Daemon, err = findDaemon(); err != nil {
		return s, err
	}
	s.Target = s.Daemon.target()
	return s, nil
}

// asUsage gives the error of a command line that names no server its exit status.
func asUsage(err error) error {
	if err == nil {
		return nil
	}
	return &exit.Error{Status: exit.Usage, Cause: err}
}

// reconnectTime is how long a lost connection to the daemon of this user is tried to be made again:
// a daemon that has ended has not kept its streams.
const reconnectTime = 3 * time.Second

// target returns where the daemon answers calls.
func (d *Daemon) target() client.Target {
	return client.Target{URL: "unix://" + d.Socket, Patience: reconnectTime, Dial: dialer(d.Socket)}
}

// dialer connects to the socket of a daemon, and signs if the daemon wants that.
func dialer(socket string) func(context.Context) (net.Conn, error) {
	return func(ctx context.Context) (net.Conn, error) { return new(unix.Dialer).DialHTTP(ctx, socket) }
}

// wantsSignature reports whether a target is the socket of a daemon that wants its clients to sign.
func wantsSignature(t client.Target) (socket string, wants bool) {
	socket, local := strings.CutPrefix(t.URL, "unix://")
	if !local {
		return "", false
	}
	info, _ := unix.Inspect(socket)
	return socket, info.Auth
}

// signing returns a target that signs, if the daemon there wants that.
func signing(t client.Target) client.Target {
	if socket, wants := wantsSignature(t); wants {
		t.Dial = dialer(socket)
	}
	return t
}

// reach connects to the daemon of this user. One that is shutting down is left for the next, which reach waits for or,
// with start, starts. If there is none, reach returns nil.
func (s *Server) reach(ctx context.Context, start bool, dial func() error) error {
	if !start && s.Daemon.Asleep() {
		return nil
	}
	return Retry(ctx, EndTime(), func(context.Context) (again bool, err error) {
		if err = dial(); !isAway(err) {
			return false, err
		}
		daemon, failure := s.Daemon.find(ctx, start)
		if failure != nil || daemon == nil {
			return false, failure
		}
		_ = daemon.Close()
		s.Target = s.Daemon.target() // the daemon may be another one than before
		return true, err
	})
}

// returnTime is how long a server elsewhere may be away while a client waits for it.
const returnTime = 30 * time.Second

// upgrade connects to a page of the server, and switches to another protocol. With wait, the daemon of this user is
// started if it isn't running, and a server elsewhere may take some time to come back. Without it, the connection
// is nil if the server isn't there.
func (s *Server) upgrade(ctx context.Context, path, protocol string, wait bool) (conn *client.Upgraded, err error) {
	dial := func() (err error) {
		conn, err = s.Target.Upgrade(ctx, path, protocol)
		return err
	}
	switch {
	case s.Daemon != nil:
		err = s.reach(ctx, wait, dial)
	case wait:
		err = Retry(ctx, returnTime, func(context.Context) (bool, error) {
			err := dial()
			return isAway(err), err
		})
	default:
		err = dial()
	}
	if !wait && (isAway(err) || isFull(err)) {
		return nil, nil
	}
	return conn, s.Explain(err)
}

// Lines is a connection that carries messages in both directions, one per line. After CloseWrite the server
// answers everything, and closes the connection.
type Lines interface {
	io.ReadWriteCloser
	CloseWrite() error
}

// Lines connects to the server for messages, one per line: over the socket of the daemon of this user, and by HTTP
// elsewhere. With start, the daemon of this user is started if it isn't running. Without it, no daemon is
// started, and the connection is nil.
func (s *Server) Lines(ctx context.Context, start bool) (Lines, error) {
	if s.Daemon == nil {
		stream, err := s.Target.Messages(ctx)
		if err != nil {
			return nil, s.Explain(err)
		}
		return stream, nil
	}
	conn, err := s.Daemon.find(ctx, start)
	if conn == nil || err != nil {
		return nil, err
	}
	return conn, nil
}

// dial connects to the server if it is there, within the time that it may take. A daemon that wants a signature gets
// more of it: a person may have to approve that.
func (s *Server) dial(ctx context.Context) (*client.Client, error) {
	within := patience.For(answerTime)
	if s.TimeLimit > 0 {
		within = min(within, max(s.TimeLimit, leastAnswerTime))
	}
	if _, wants := wantsSignature(s.Target); wants {
		within = EndTime()
	}
	answering, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	conn, err := client.Dial(answering, s.Target)
	if err != nil && answering.Err() != nil && ctx.Err() == nil {
		return nil, s.Silent(within)
	}
	return conn, err
}

// Silent returns the error for a server that hasn't answered within some time.
func (s *Server) Silent(within time.Duration) error {
	if s.Daemon == nil {
		return unreachable(fmt.Errorf("the server %s does not answer within %v; %s looks for the reason", s.Target.URL, within, s.doctor()))
	}
	return s.Daemon.silent(within)
}

// silent returns the error for a daemon that hasn't answered within some time.
func (d *Daemon) silent(within time.Duration) error {
	info, running := unix.Inspect(d.Socket)
	if s := d.Service(); !running && s.Installed() {
		return unreachable(fmt.Errorf("the service %s was started and does not answer within %v; kernos service status and kernos service logs show why", s.Name, within))
	}
	if info.Stopping {
		return unreachable(fmt.Errorf("the daemon (process %d) is about to end: it finishes what runs, and takes nothing new", info.PID))
	}
	if running && d.IsMember() {
		return unreachable(fmt.Errorf("the node (process %d) does not answer within %v; it may wait for a node that owns the kernel: kernos cluster status shows them", info.PID, within))
	}
	return unreachable(fmt.Errorf("the daemon (process %d) does not answer within %v; it may have been suspended (kill -CONT %d wakes it up), or have too much to do: see %s", info.PID, within, info.PID, LogPath(d.Home)))
}

// isAway reports whether a server is not there at the moment: it is starting, or shutting down.
func isAway(err error) bool {
	_, unreachable := errors.AsType[*client.Unreachable](err)
	_, notSigned := errors.AsType[*unix.NotSigned](err)
	r, refused := errors.AsType[*client.Refused](err)
	return unreachable && !notSigned && !isFull(err) || refused && r.Name() == transport.ShuttingDown
}

// isFull reports whether a server has as many connections as it may.
func isFull(err error) bool {
	r, refused := errors.AsType[*client.Refused](err)
	return refused && r.Name() == transport.TooManyConnections || errors.Is(err, unix.ErrFull)
}

// Setting returns the command that gives the server a file: in its context, or in a variable if it
// has no context.
func (s *Server) Setting(flag, variable string) string {
	if s.Context == "" {
		return fmt.Sprintf("kernos context add NAME %s --%s FILE, or the variable %s for an address without a name", terminal.ShellQuote(s.Target.URL), flag, variable)
	}
	return fmt.Sprintf("kernos context set %s --%s FILE", s.Context, flag)
}

// doctor returns the command that examines the server.
func (s *Server) doctor() string {
	switch {
	case s.Daemon != nil:
		return "kernos doctor"
	case s.Context != "":
		return "kernos doctor --context " + s.Context
	}
	return "kernos doctor " + terminal.ShellQuote(s.Target.URL)
}

// Explain gives an error of the client its exit status and the next step.
func (s *Server) Explain(err error) error {
	if _, ok := errors.AsType[*exit.Error](err); ok || err == nil {
		return err
	}
	status := exit.Failure
	if advice := s.TLSAdvice(err); advice != "" {
		return &exit.Error{Status: exit.Unreachable, Cause: fmt.Errorf("%w; %s", err, advice)}
	}
	if r, ok := errors.AsType[*client.Refused](err); ok {
		status = exit.Unreachable
		if r.Forbidden() {
			status = exit.Forbidden
			err = fmt.Errorf("%w; its token is set with %s", err, s.Setting("token-file", "KERNOS_TOKEN"))
		}
	}
	if e, ok := errors.AsType[*client.Unreachable](err); ok {
		if _, ok := errors.AsType[*unix.NotSigned](err); ok {
			return unreachable(e.Err)
		}
		status = exit.Unreachable
		err = fmt.Errorf("%w; %s looks for the reason", err, s.doctor())
	}
	if _, ok := errors.AsType[*client.Lost](err); ok {
		status = exit.Unreachable
	}
	if e, ok := errors.AsType[*client.RPCError](err); ok {
		switch e.Code {
		case -32601:
			status = exit.Unknown
		case -32602:
			status = exit.Invalid
		}
	}
	return &exit.Error{Status: status, Cause: err}
}
