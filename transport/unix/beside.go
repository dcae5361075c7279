package unix

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"strings"
)

// HTTPPath returns where the socket is that a daemon serves HTTP on, given that of its
// messages.
func HTTPPath(path string) string { return strings.TrimSuffix(path, ".sock") + ".http.sock" }

// Beside makes another socket for the process that serves this one, such as that of
// [HTTPPath], in the same directory. It accepts connections of the owner only; others are
// closed. Whoever made it closes it, before l is: until then nobody else can have it.
func (l *Listener) Beside(path string, log *slog.Logger) (net.Listener, error) {
	if len(path) > maxPath {
		return nil, fmt.Errorf("the path of a socket may have %d bytes, and %s has %d; set XDG_RUNTIME_DIR to a directory with a shorter one", maxPath, path, len(path))
	}
	// The lock is held, so it was left behind.
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("can't take over the socket that was left behind: %w", err)
	}
	socket, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, errors.Join(err, socket.Close())
	}
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &owned{UnixListener: socket, peer: peerUser, log: log}, nil
}

// owned is a listener that accepts connections of its owner only.
type owned struct {
	*net.UnixListener
	peer func(*net.UnixConn) (uid int, err error)
	log  *slog.Logger
}

// Accept implements [net.Listener].
func (o *owned) Accept() (net.Conn, error) {
	for {
		conn, err := o.AcceptUnix()
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
