package daemon

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"kernos/internal/owned"
	"kernos/store"
	"kernos/store/pebble"
	"kernos/transport/unix"
)

// A Home is the state of one origin in a home directory. Several origins can share a home
// directory; each has a folder of its own in it.
type Home struct {
	Dir    string // the home directory, absolute
	Origin store.Origin
}

// FindHome returns the home in a directory. An empty origin is [store.DefaultOrigin].
// Nothing is made on disk.
func FindHome(dir string, origin store.Origin) (Home, error) {
	origin = cmp.Or(origin, store.DefaultOrigin)
	dir, err := filepath.Abs(dir)
	return Home{Dir: dir, Origin: origin}, err
}

// Origins returns the folder that holds the folders of all origins.
func (h Home) Origins() string { return filepath.Join(h.Dir, "origins") }

// State returns the folder of the origin.
func (h Home) State() string { return filepath.Join(h.Origins(), h.Origin.Folder()) }

// blobs returns the folder of large data.
func (h Home) blobs() string { return filepath.Join(h.State(), "blobs") }

// Store returns the folder of the origin's store.
func (h Home) Store() string { return filepath.Join(h.State(), "store") }

// Token returns the file with the token that callers over TCP must send, by default.
func (h Home) Token() string { return filepath.Join(h.Dir, "token") }

// Key returns the file with the key that seals where no ssh-agent does.
func (h Home) Key() string { return filepath.Join(h.State(), "key") }

// Membership returns the file with which the home is a member of a cluster.
func (h Home) Membership() string { return filepath.Join(h.State(), "cluster.json") }

// IsMember reports whether the home is a member of a cluster.
func (h Home) IsMember() bool {
	_, err := os.Lstat(h.Membership())
	return err == nil
}

// Clients returns the folder with what undoes the installations in LLM clients of this machine.
func (h Home) Clients() string { return filepath.Join(h.State(), "clients") }

// Socket returns the path of the socket that a daemon of this home serves if it runs in the
// environment of this process, and makes the directory of the socket.
func (h Home) Socket() (string, error) { return unix.Path(h.Dir, string(h.Origin)) }

// Holder returns the process that has the store open, if one does.
func (h Home) Holder() (pebble.Holder, bool) { return pebble.HeldBy(h.Store()) }

// FindDaemon returns the socket of the daemon that serves the home, and what the daemon
// reports of itself if one is running. A daemon that was started with another runtime
// directory than own is in is found by the lock of its store. If no daemon is running,
// socket is own.
func (h Home) FindDaemon(own string) (socket string, info unix.Info, running bool) {
	if info, running = unix.Inspect(own); running {
		return own, info, true
	}
	holder, held := h.Holder()
	if !held || holder.Address == "" {
		return own, unix.Info{}, false
	}
	info, running = unix.Inspect(holder.Address)
	if !running || info.Home != h.Dir || info.Origin != string(h.Origin) {
		return own, unix.Info{}, false
	}
	return holder.Address, info, true
}

// A HomeError reports a home directory that can't be used.
type HomeError struct {
	Dir    string
	Reason string
}

func (e *HomeError) Error() string {
	return fmt.Sprintf("the home of kernos, %s, %s; set KERNOS_HOME to another directory", e.Dir, e.Reason)
}

// ErrMember is the error of a home that is a member of a cluster, where it would be opened alone.
var ErrMember = errors.New("this home is a member of a cluster, and is opened by a node of it only: kernos serve, or a command that starts it; kernos cluster leave ends the membership")

// Check reports whether the home directory can be used, with a *HomeError if not. One that
// doesn't exist can, if nothing is in its way.
func (h Home) Check() error {
	dir, info, err := h.Nearest()
	switch {
	case err != nil:
		return &HomeError{h.Dir, fmt.Sprintf("can't be looked at: %v", err)}
	case info.IsDir() && dir == h.Dir:
		if err := owned.Check(info); err != nil {
			return &HomeError{h.Dir, err.Error()}
		}
		return h.checkAround()
	case info.IsDir():
		return h.checkAround()
	case dir == h.Dir:
		return &HomeError{h.Dir, "is not a directory"}
	}
	return &HomeError{h.Dir, fmt.Sprintf("can't be made: %s is not a directory", dir)}
}

// checkAround reports whether other users could replace the home, or what is in the folders of its origins, with a *HomeError.
func (h Home) checkAround() error {
	if err := owned.Above(h.Dir); err != nil {
		return &HomeError{h.Dir, err.Error()}
	}
	for _, dir := range []string{h.Origins(), h.State()} {
		info, err := os.Stat(dir)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err == nil:
			err = owned.Check(info)
		}
		if err != nil {
			return &HomeError{h.Dir, fmt.Sprintf("can't be used: its folder %s %v", dir, err)}
		}
	}
	return nil
}

// Make makes the home directory if it doesn't exist. Errors are *HomeError.
func (h Home) Make() error {
	if err := h.Check(); err != nil {
		return err
	}
	if err := os.MkdirAll(h.Dir, 0o700); err != nil {
		return &HomeError{h.Dir, fmt.Sprintf("can't be made: %v", err)}
	}
	return nil
}

// Nearest returns the home directory or, where it doesn't exist, the nearest path above it
// that does.
func (h Home) Nearest() (path string, info fs.FileInfo, err error) {
	for path = h.Dir; ; path = filepath.Dir(path) {
		info, err = os.Stat(path)
		if err == nil || path == filepath.Dir(path) || !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR) {
			return path, info, err
		}
	}
}
