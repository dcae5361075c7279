package unix

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"sync"
	"time"
)

// A socket listens under a name in the file system. A program that cleans up temporary directories
// may remove the name; the socket can then be bound again while the accepting goroutine continues.
type socket struct {
	path string

	mu       sync.Mutex // guards what follows
	listener *net.UnixListener
	name     os.FileInfo // the socket's file
	adopted  bool        // a service manager listens too, and keeps the socket
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

// adoptSocket takes over a socket that a service manager listens on. Only its owner may connect.
func adoptSocket(l *net.UnixListener, path string) (*socket, error) {
	name, err := os.Lstat(path)
	if err == nil {
		err = os.Chmod(path, 0o600)
	}
	if err != nil {
		return nil, fmt.Errorf("the socket of the service manager can't be taken over: %w", err)
	}
	return &socket{path: path, listener: l, name: name, adopted: true}, nil
}

// bind gives the socket its name. Clients that have connected under an earlier one and were not
// accepted are turned away.
func (s *socket) bind() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	if s.listener != nil && s.named() {
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
	s.listener, s.name, s.adopted = l, name, false
	return nil
}

// accept waits for a connection, also while the name is removed and bound again.
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

// withdraw removes the name, so that clients no longer find the socket. A socket of a service manager keeps its name.
func (s *socket) withdraw() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	if s.named() && !s.adopted {
		_ = os.Remove(s.path)
	}
}

// kept reports whether a service manager keeps the socket.
func (s *socket) kept() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.adopted
}

func (s *socket) close() error {
	s.withdraw()
	return s.current().Close()
}

func peerUser(conn *net.UnixConn) (uid int, err error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return -1, err
	}
	if controlErr := raw.Control(func(fd uintptr) { uid, err = credentials(int(fd)) }); controlErr != nil {
		return -1, controlErr
	}
	return uid, err
}

// deadlines end the reads and writes of a connection.
type deadlines interface {
	SetReadDeadline(time.Time) error
	SetWriteDeadline(time.Time) error
}

var past = time.Unix(1, 0)
