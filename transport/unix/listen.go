package unix

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Info describes who serves a socket. It lies beside the socket as JSON, in the file whose lock
// makes a daemon the only one. Listen fills in a PID and a Started that are zero.
type Info struct {
	PID     int       `json:"pid"`
	Version string    `json:"version"`
	Started time.Time `json:"started"`
	Home    string    `json:"home"`
	Origin  string    `json:"origin"`

	// Auth means that the daemon wants a signature before it serves anything. Clients go
	// by it, so it must agree with the keys that the server has.
	Auth bool `json:"auth"`

	// Keys are the fingerprints of the keys that may sign, in the form SHA256:…, so that a
	// client knows which one of its agent to use. It may be empty.
	Keys []string `json:"keys,omitempty"`

	// Dir, Args and Env are how the daemon was started: where, with which arguments, and with
	// which of its settings in the environment. They may be empty.
	Dir  string   `json:"dir,omitempty"`
	Args []string `json:"args,omitempty"`
	Env  []string `json:"env,omitempty"`

	// Stopping means that the daemon finishes what runs and takes nothing new. It is written
	// before the socket is gone.
	Stopping bool `json:"stopping,omitempty"`
}

// Running is the error of Listen if another process serves the socket.
type Running struct {
	Path string
	Info Info // empty if it could not be read
}

func (e *Running) Error() string {
	if e.Info.PID == 0 {
		return fmt.Sprintf("a daemon serves %s already; kernos stop ends it", e.Path)
	}
	text := fmt.Sprintf("a daemon serves %s already: process %d, version %s, since %s", e.Path, e.Info.PID, e.Info.Version, e.Info.Started.Format(time.RFC3339))
	if e.Info.Stopping {
		return text + "; it is about to end"
	}
	return text + "; kernos stop ends it"
}

// A Listener is a socket that this process alone serves. Its owner closes it,
// after [Server.Serve] has returned.
type Listener struct {
	path   string
	socket *socket

	mu      sync.Mutex // guards what follows
	info    Info
	lock    *os.File
	sockets []*socket // all sockets of the listener

	closing sync.Once
	err     error // the result of Close
}

// Listen makes the socket at path, in an existing directory, and keeps info beside it, which names the process
// that serves it. Of any number of processes that do so at the same moment, exactly one
// succeeds; the others get a *Running. A socket that a process has left behind is taken
// over.
func Listen(path string, info Info) (*Listener, error) {
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
	if err := l.begin(); err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return l, nil
}

// begin makes the socket. The lock is held.
func (l *Listener) begin() error {
	// The lock file may have been swept away under a daemon that runs.
	if c, err := net.Dial("unix", l.path); err == nil {
		_ = c.Close()
		return &Running{Path: l.path}
	}
	if err := l.introduce(); err != nil {
		return err
	}
	own, err := bindSocket(l.path)
	if err != nil {
		return err
	}
	l.socket, l.sockets = own, []*socket{own}
	return nil
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
	if !l.info.Stopping {
		l.info.Stopping = true
		_ = l.introduce() // if this fails, a client that finds no socket can't report why
	}
}

// Close removes the socket, and then lets another process serve it. Connections that were
// accepted stay.
func (l *Listener) Close() error {
	l.closing.Do(func() {
		l.err = l.socket.close()
		l.mu.Lock()
		defer l.mu.Unlock()
		_ = l.lock.Truncate(0)
		l.err = errors.Join(l.err, l.lock.Close())
	})
	return l.err
}

// Inspect returns which process serves the socket at path at this moment, and whether one does.
// It does not connect to it.
func Inspect(path string) (Info, bool) {
	f, err := os.OpenFile(lockName(path), os.O_RDONLY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return Info{}, false
	}
	defer func() { _ = f.Close() }()
	// A process that has just taken the lock has yet to write who it is.
	for range 50 {
		if flock(f, unix.LOCK_SH) == nil {
			return Info{}, false
		}
		var info Info
		text, err := io.ReadAll(io.NewSectionReader(f, 0, maxInfo))
		if err == nil && json.Unmarshal(text, &info) == nil {
			return info, true
		}
		time.Sleep(time.Millisecond)
	}
	return Info{}, true
}

const maxInfo = 64 << 10

// lockName returns the name of the file whose lock makes a daemon the only one. The file stays:
// removing it could remove one that another process has just locked.
func lockName(path string) string { return path + ".lock" }

func takeLock(path string) (*os.File, error) {
	name := lockName(path)
	patience := time.Now().Add(10 * time.Second)
	for {
		f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
		if err != nil {
			return nil, fmt.Errorf("can't open the lock of the socket: %w", err)
		}
		err = flock(f, unix.LOCK_EX)
		if err == nil && current(f, name) {
			return f, nil
		}
		// An inspector holds a shared lock for a moment. That does not count.
		inspected := errors.Is(err, unix.EWOULDBLOCK) && flock(f, unix.LOCK_SH) == nil
		_ = f.Close()
		switch {
		case err != nil && !errors.Is(err, unix.EWOULDBLOCK):
			return nil, fmt.Errorf("can't lock %s: %w", name, err)
		case err != nil && !inspected:
			info, _ := Inspect(path)
			return nil, &Running{Path: path, Info: info}
		case time.Now().After(patience):
			return nil, fmt.Errorf("%s is locked again and again by others who look at it; try again", name)
		}
		time.Sleep(rand.N(time.Millisecond)) // two that look at the same moment must not do so for ever
	}
}

// flock takes a lock of a file if no process holds one that excludes it. It ends with the
// file.
func flock(f *os.File, how int) error {
	_, err := retry(func() (struct{}, error) {
		return struct{}{}, unix.Flock(int(f.Fd()), how|unix.LOCK_NB)
	})
	return err
}

// current reports whether the file of this name is f, and ours: it may have been removed
// since it was opened.
func current(f *os.File, name string) bool {
	opened, err := f.Stat()
	if err != nil {
		return false
	}
	named, err := os.Lstat(name)
	return err == nil && os.SameFile(opened, named)
}

// Terminate sends a process the signal to end, as kill does, if that process serves the socket at
// path: for a daemon that can't be asked. It returns an error if another process serves the socket, or
// if the serving process can't be seen: the daemon may run in a container, where its number means
// another process than here.
func Terminate(path string, pid int) error {
	f, err := os.OpenFile(lockName(path), os.O_RDONLY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	// The process is the same from here on, even if it ends and its number is used again.
	p, err := os.FindProcess(pid)
	if err != nil {
		return err
	}
	defer func() { _ = p.Release() }()
	if held, err := holds(pid, f); err != nil || !held {
		return errors.Join(fmt.Errorf("process %d is not seen to serve %s from here; end it where it runs", pid, path), err)
	}
	return p.Signal(syscall.SIGTERM)
}
