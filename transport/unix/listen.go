package unix

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"kernos/transport"
)

// A Listener is a socket that this process alone serves. Its owner closes it,
// after [Server.Serve] has returned.
type Listener struct {
	path   string
	socket *socket            // nil if passed isn't
	passed *transport.Handoff // of a listener that [Listener.Passed] has made; nil for one that has the socket

	mu   sync.Mutex // guards what follows
	info Info
	lock *os.File

	closing sync.Once
	err     error // the result of Close
}

// Listen makes the socket at path, in an existing directory, and keeps info beside it, which names the process
// that serves it. Of any number of processes that do so at the same moment, exactly one
// succeeds; the others get a *Running. A socket that a process has left behind is taken
// over.
func Listen(path string, info Info) (*Listener, error) { return listen(path, info, nil) }

// Adopt is Listen for a socket at path that a service manager listens on. The manager keeps it: it stays when the
// listener is closed, and holds what connects after that for the next process.
func Adopt(own *net.UnixListener, path string, info Info) (*Listener, error) {
	if bound := own.Addr().String(); bound != path {
		return nil, fmt.Errorf("the service manager listens on %s, and clients connect to %s: kernos service install writes the right path", bound, path)
	}
	return listen(path, info, own)
}

// listen serves a socket that is adopted, or makes one if adopted is nil.
func listen(path string, info Info, adopted *net.UnixListener) (*Listener, error) {
	if len(path) > maxPath {
		return nil, fmt.Errorf("the path of a socket may have %d bytes, and %s has %d; use a shorter one", maxPath, path, len(path))
	}
	info.PID = cmp.Or(info.PID, os.Getpid())
	if info.Started.IsZero() {
		info.Started = time.Now()
	}
	lock, err := takeLock(path)
	if err != nil {
		return nil, err
	}
	l := &Listener{path: path, info: info, lock: lock}
	if err := l.begin(adopted); err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return l, nil
}

// begin makes the socket, or takes over the one that is adopted. The lock is held.
func (l *Listener) begin(adopted *net.UnixListener) (err error) {
	if adopted != nil {
		if err := l.introduce(); err != nil {
			return err
		}
		l.socket, err = adoptSocket(adopted, l.path)
		return err
	}
	// The lock file may have been swept away under a daemon that runs.
	if c, err := net.Dial("unix", l.path); err == nil {
		_ = c.Close()
		return &Running{Path: l.path}
	}
	if err := l.introduce(); err != nil {
		return err
	}
	l.socket, err = bindSocket(l.path)
	return err
}

// introduce writes into the lock file who holds it. Mu is held, or the listener is new.
func (l *Listener) introduce() error {
	text, err := json.Marshal(l.info)
	if err != nil {
		return fmt.Errorf("can't record who serves %s: %w", l.path, err)
	}
	// A process that reads half of it reads again.
	if _, err := l.lock.WriteAt(append(text, '\n'), 0); err != nil {
		return err
	}
	return l.lock.Truncate(int64(len(text)) + 1)
}

// Path returns where the socket is.
func (l *Listener) Path() string { return l.path }

// Info returns what the listener reports about itself.
func (l *Listener) Info() Info {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.info
}

// announceEnd records in the lock file that the daemon is stopping.
func (l *Listener) announceEnd() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.info.Stopping && l.passed == nil {
		l.info.Stopping = true
		_ = l.introduce() // if this fails, a client that finds no socket can't report why
	}
}

// Close removes the socket, and then lets another process serve it. Connections that were
// accepted stay.
func (l *Listener) Close() error {
	if l.passed != nil {
		return l.passed.Close()
	}
	l.closing.Do(func() {
		l.err = l.socket.close()
		l.mu.Lock()
		defer l.mu.Unlock()
		_ = l.lock.Truncate(0)
		l.err = errors.Join(l.err, l.lock.Close())
	})
	return l.err
}

// accept waits for a connection, until interrupt is called.
func (l *Listener) accept() (net.Conn, error) {
	if l.passed != nil {
		return l.passed.Accept()
	}
	conn, err := l.socket.accept()
	if err != nil {
		return nil, err
	}
	return conn, nil
}

// interrupt ends a wait for a connection.
func (l *Listener) interrupt() {
	if l.passed != nil {
		_ = l.passed.Close()
		return
	}
	_ = l.socket.current().SetDeadline(past)
}

// watchEvery is how often the names of the sockets are checked.
const watchEvery = 2 * time.Second

// watchNames makes sure, until ctx is done, that the socket and the lock have their names.
func (l *Listener) watchNames(ctx context.Context, every time.Duration, log *slog.Logger) {
	if l.passed != nil {
		return
	}
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

// restore gives the socket and the lock their names back, and reports whether one was
// missing.
func (l *Listener) restore() (missing bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	locked := current(l.lock, lockName(l.path))
	if locked && l.socket.intact() {
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
	return true, l.socket.bind()
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return !errors.Is(err, fs.ErrNotExist)
}
