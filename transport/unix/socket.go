package unix

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// A socket listens under a name in the file system. What tidies temporary directories may
// take the name away; then it can be bound anew, without the accepting goroutine noticing.
type socket struct {
	path string

	mu       sync.Mutex // guards what follows
	listener *net.UnixListener
	name     os.FileInfo // the socket's file
	closed   bool
}

// bindSocket makes a socket, for the owner of this process only, in place of whatever has
// its name.
func bindSocket(path string) (*socket, error) {
	s := &socket{path: path}
	if err := s.bind(); err != nil {
		return nil, err
	}
	return s, nil
}

// bind gives the socket its name. Clients that have connected under an earlier one and were not
// accepted are turned away.
func (s *socket) bind() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	if err := os.Remove(s.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("can't take over the socket that was left behind: %w", err)
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: s.path, Net: "unix"})
	if err != nil {
		return err
	}
	l.SetUnlinkOnClose(false) // the name may be another's by then
	err = os.Chmod(s.path, 0o600)
	name, statErr := os.Lstat(s.path)
	if err = errors.Join(err, statErr); err != nil {
		_ = os.Remove(s.path)
		return errors.Join(err, l.Close())
	}
	if s.listener != nil {
		_ = s.listener.Close()
	}
	s.listener, s.name = l, name
	return nil
}

// accept waits for a connection, whatever becomes of the name.
func (s *socket) accept() (*net.UnixConn, error) {
	for {
		l := s.current()
		conn, err := l.AcceptUnix()
		if err == nil || s.current() == l {
			return conn, err
		}
	}
}

func (s *socket) current() *net.UnixListener {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.listener
}

// intact reports whether the name leads to the socket.
func (s *socket) intact() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed || s.named()
}

// named reports whether the name is that of the socket. It is called with mu held.
func (s *socket) named() bool {
	now, err := os.Lstat(s.path)
	return err == nil && os.SameFile(now, s.name)
}

// withdraw removes the name, so that clients no longer find the socket.
func (s *socket) withdraw() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	if s.named() {
		_ = os.Remove(s.path)
	}
}

func (s *socket) close() error {
	s.withdraw()
	return s.current().Close()
}

// watchEvery is how often the names of the sockets are checked.
const watchEvery = 2 * time.Second

// watchNames makes sure, until ctx is done, that the sockets and the lock have their names.
func (l *Listener) watchNames(ctx context.Context, every time.Duration, log *slog.Logger) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	failing := false
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		restored, err := l.restore()
		switch {
		case err != nil && !failing:
			log.Error("something has removed the socket, and it can't be made again; trying on", "socket", l.Path(), "error", err)
		case restored && err == nil:
			log.Warn("something has removed the socket or its lock; it was made again", "socket", l.Path())
		}
		failing = err != nil
	}
}

// restore gives the sockets and the lock their names back, and reports whether one was
// missing.
func (l *Listener) restore() (missing bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	locked := current(l.lock, lockName(l.path))
	missing = !locked
	for _, s := range l.sockets {
		missing = missing || !s.intact()
	}
	if !missing {
		return false, nil
	}
	if dir := filepath.Dir(l.path); !exists(dir) {
		if err := makePrivate(dir); err != nil {
			return true, err
		}
	}
	if !locked {
		// A daemon that has started in the meantime has the new lock, and finds the store in use.
		lock, err := takeLock(l.path)
		if err != nil {
			return true, err
		}
		_ = l.lock.Close()
		l.lock = lock
		if err := l.introduce(); err != nil {
			return true, err
		}
	}
	for _, s := range l.sockets {
		if !s.intact() {
			err = errors.Join(err, s.bind())
		}
	}
	return true, err
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return !errors.Is(err, fs.ErrNotExist)
}

// HTTPPath returns where the socket is that a daemon serves HTTP on, given that of its
// messages.
func HTTPPath(path string) string { return strings.TrimSuffix(path, ".sock") + ".http.sock" }

// Beside makes another socket for the process that serves this one, such as that of
// [HTTPPath], in the same directory. It accepts connections of the owner only; others are
// closed. The caller closes it, before l: until then no other process can have it.
func (l *Listener) Beside(path string, log *slog.Logger) (net.Listener, error) {
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
	return &owned{socket: s, peer: peerUser, log: log}, nil
}

type owned struct {
	socket *socket
	peer   func(*net.UnixConn) (uid int, err error)
	log    *slog.Logger
}

// Accept implements [net.Listener].
func (o *owned) Accept() (net.Conn, error) {
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
func (o *owned) Addr() net.Addr { return o.socket.current().Addr() }

// Close implements [net.Listener]. It removes the socket.
func (o *owned) Close() error { return o.socket.close() }
