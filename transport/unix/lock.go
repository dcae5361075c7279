package unix

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
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

// lockName returns the name of the lock file, which one daemon at a time holds locked. The file is
// never removed: that could remove one that another process has just locked.
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
