package unix

import (
	"cmp"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strings"
)

// HTTPPath returns where the socket is that a daemon serves HTTP on, given that of its
// messages.
func HTTPPath(path string) string { return strings.TrimSuffix(path, ".sock") + ".http.sock" }

// ListenOwner makes another socket for the process that serves this one, such as that of
// [HTTPPath], in the same directory. It accepts connections of the owner only; others are
// closed. The caller closes it, before l: until then no other process can have it.
func (l *Listener) ListenOwner(path string, log *slog.Logger) (net.Listener, error) {
	if len(path) > maxPath {
		return nil, fmt.Errorf("the path of a socket may have %d bytes, and %s has %d; set XDG_RUNTIME_DIR to a directory with a shorter one", maxPath, path, len(path))
	}
	s, err := bindSocket(path) // the lock is held, so an existing file was left behind
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	l.sockets = append(l.sockets, s)
	l.mu.Unlock()
	log = cmp.Or(log, slog.New(slog.DiscardHandler))
	return &ownerListener{socket: s, peer: peerUser, log: log}, nil
}

// An ownerListener accepts connections of the owner only.
type ownerListener struct {
	socket *socket
	peer   func(*net.UnixConn) (uid int, err error)
	log    *slog.Logger
}

// Accept implements [net.Listener].
func (o *ownerListener) Accept() (net.Conn, error) {
	for {
		conn, err := o.socket.accept()
		if err != nil {
			return nil, err
		}
		uid, err := o.peer(conn)
		if err == nil && uid == os.Geteuid() {
			return conn, nil
		}
		o.log.Warn("a connection of another user was refused", "socket", o.Addr().String(), "uid", uid, "error", err)
		_ = conn.Close()
	}
}

// Addr implements [net.Listener].
func (o *ownerListener) Addr() net.Addr { return o.socket.current().Addr() }

// Close implements [net.Listener]. It removes the socket.
func (o *ownerListener) Close() error { return o.socket.close() }
