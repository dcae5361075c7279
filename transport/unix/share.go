package unix

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"sync"
	"time"

	"kernos/internal/backoff"
	"kernos/kernel"
	"kernos/message"
	"kernos/transport"
)

// Passed returns a listener of connections that other parts of this process hand over, for a [Server] that comes and goes
// while another [Listener] of the process has the socket and its lock. It has the path and the info of that one. What is handed over is
// a *net.UnixConn or a [Passed]. The part that hands
// a connection over vouches that the owner of this process is at its other end: the server doesn't ask the operating system
// again, which for a connection that another node has accepted would know nothing.
func (l *Listener) Passed() (passed *Listener, conns *transport.Handoff) {
	conns = transport.NewHandoff()
	return &Listener{path: l.path, info: l.Info(), passed: conns}, conns
}

// Share accepts connections of this process's user until ctx is done, and hands each to a function, which must not wait. It keeps the
// socket's names as [Server.Serve] does. Then it withdraws the socket, unless it was adopted, and refuses what was not accepted.
func (l *Listener) Share(ctx context.Context, log *slog.Logger, each func(*net.UnixConn)) error {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	var watched sync.WaitGroup
	watched.Go(func() { l.watchNames(ctx, watchEvery, log) })
	stopped := make(chan struct{})
	forget := context.AfterFunc(ctx, func() {
		defer close(stopped)
		l.announceEnd()
		watched.Wait()
		_ = l.socket.current().SetDeadline(past)
	})
	defer l.socket.withdraw()
	pauses := backoff.Backoff{First: 5 * time.Millisecond, Longest: time.Second}
	for {
		conn, err := l.socket.accept()
		switch {
		case ctx.Err() != nil:
			forget()
			<-stopped
			if err == nil {
				turnAway(conn, errStopping)
			}
			l.socket.withdraw()
			if !l.socket.kept() {
				l.refuseRest(func(conn net.Conn) { turnAway(conn, errStopping) })
			}
			return nil
		case errors.Is(err, net.ErrClosed):
			return fmt.Errorf("the listener was closed while it was served: %w", err)
		case err != nil:
			log.Error("can't accept a connection; trying again", "error", err, "pause", pauses.Pause())
			pauses.Wait(ctx.Done())
			continue
		}
		pauses.Reset()
		if uid, err := peerUser(conn); err != nil || uid != os.Geteuid() {
			log.Warn("a connection of another user was refused", "uid", uid, "error", err)
			turnAway(conn, errForeign)
			continue
		}
		each(conn)
	}
}

// errForeign is the error for a peer that is another user.
var errForeign = message.Errorf(403, "This daemon belongs to another user; start one of your own with kernos serve")

// turnAway sends a peer why it isn't served, and closes the connection.
func turnAway(conn net.Conn, why *message.Error) {
	var ids kernel.IDs
	now := time.Now()
	m := message.Message{Kind: message.KindError, Type: transport.Disconnected, Data: why.Append(nil)}
	m.Metadata.ID, m.Metadata.Timestamp = message.ID(ids.Next(now)), now.UnixMilli()
	_ = conn.SetWriteDeadline(now.Add(time.Second))
	_, _ = conn.Write(append(message.Append(nil, &m), '\n'))
	_ = conn.Close()
}

// refuseRest hands connections that were not accepted to a function that refuses them. No further connection can come.
func (l *Listener) refuseRest(refuse func(net.Conn)) {
	_ = l.socket.current().SetDeadline(time.Now().Add(10 * time.Millisecond))
	for conn, err := l.socket.accept(); err == nil; conn, err = l.socket.accept() {
		refuse(conn)
	}
}

// SpeaksHTTP waits until something has come over a connection, which stays unread, and reports whether it begins a request of HTTP. A
// deadline ends the wait.
func SpeaksHTTP(conn *net.UnixConn) (http bool) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return false
	}
	_ = raw.Read(func(fd uintptr) (come bool) {
		http, come = beginsHTTP(fd)
		return come
	})
	return http
}

// HungUp waits until the other end of a connection, which sends nothing more, does not read either, and reports whether it came
// to that. A deadline of the connection ends the wait.
func HungUp(conn *net.UnixConn) bool {
	raw, err := conn.SyscallConn()
	return err == nil && hungUp(raw)
}
