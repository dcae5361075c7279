package unix

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"kernos/internal/owned"
)

// Path returns where the socket of a daemon is that serves an origin of a home. The same
// home and origin always give the same path, so a client needs nothing else to find its
// daemon.
//
// The socket lies in a directory that only its owner may enter, which Path makes:
// in $XDG_RUNTIME_DIR, else in $TMPDIR, else in /tmp. A place that is not there, where
// nothing can be made, or that would make the path longer than that of a socket may be, is
// passed over. A directory of this name that belongs to another user, or is a link, is an
// error, and so is a place that other users may write, unless it is sticky, as /tmp is: they could
// put another directory there.
func Path(home, origin string) (string, error) {
	home, err := filepath.Abs(home)
	if err != nil {
		return "", fmt.Errorf("can't tell which daemon serves %s: %w", home, err)
	}
	return place(Name(home, origin)+".sock", os.Getenv("XDG_RUNTIME_DIR"), os.Getenv("TMPDIR"), "/tmp")
}

// Name returns what distinguishes the daemon of an origin of a home, given by its absolute path, from all others: 16 digits.
func Name(home, origin string) string {
	hash := sha256.Sum256([]byte(home + "\x00" + origin))
	return hex.EncodeToString(hash[:8])
}

// place returns the path of a socket in the first directory that will do.
func place(name string, bases ...string) (string, error) {
	var skipped []error
	for _, base := range bases {
		if !filepath.IsAbs(base) {
			continue // not set, or relative, which is another place in every directory
		}
		dir := filepath.Join(base, directoryName(base))
		path := filepath.Join(dir, name)
		if len(path) > maxPath {
			skipped = append(skipped, fmt.Errorf("%s is longer than the %d bytes that the path of a socket may have", path, maxPath))
			continue
		}
		if err := owned.Above(dir); err != nil {
			return "", fmt.Errorf("%s is not safe for a socket: it %w, or set XDG_RUNTIME_DIR to a directory that only you can enter", dir, err)
		}
		err := makePrivate(dir)
		switch {
		case err == nil:
			return path, nil
		case errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS), errors.Is(err, syscall.ENOTDIR):
			skipped = append(skipped, err)
		default:
			return "", err
		}
	}
	return "", fmt.Errorf("there is no place for the socket; set XDG_RUNTIME_DIR to a directory of yours with a short path: %w", errors.Join(skipped...))
}

// maxPath is how long the path of a socket may be; the kernel wants a NUL after it.
const maxPath = len(unix.RawSockaddrUnix{}.Path) - 1

// directoryName returns the name of the private directory in base. Where others may make
// directories too, it has the owner's number in it.
func directoryName(base string) string {
	var stat unix.Stat_t
	if unix.Stat(base, &stat) == nil && int(stat.Uid) == os.Geteuid() && stat.Mode&0o077 == 0 {
		return "kernos"
	}
	return "kernos-" + strconv.Itoa(os.Geteuid())
}

// unsafe returns the error of a directory that others could have a hand in.
func unsafe(dir, reason string, args ...any) error {
	return fmt.Errorf("%s is not safe for a socket: it %s; remove it, or set XDG_RUNTIME_DIR to a directory that only you can enter", dir, fmt.Sprintf(reason, args...))
}

// makePrivate makes a directory of mode 0700, or makes sure that the existing one is ours
// and has that mode. It checks the directory that it has opened, which can't be exchanged for
// another in the meantime.
func makePrivate(dir string) error {
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	fd, err := retry(func() (int, error) {
		return unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	})
	switch {
	case errors.Is(err, unix.ELOOP), errors.Is(err, unix.ENOTDIR):
		return unsafe(dir, "is not a directory, but a link or a file")
	case errors.Is(err, unix.EACCES):
		return unsafe(dir, "belongs to another user, or can't be entered by its owner")
	case err != nil:
		return &fs.PathError{Op: "open", Path: dir, Err: err}
	}
	defer func() { _ = unix.Close(fd) }()
	var stat unix.Stat_t
	if err := unix.Fstat(fd, &stat); err != nil {
		return &fs.PathError{Op: "stat", Path: dir, Err: err}
	}
	if int(stat.Uid) != os.Geteuid() {
		return unsafe(dir, "belongs to the user with the number %d", stat.Uid)
	}
	if stat.Mode&0o777 != 0o700 {
		if err := unix.Fchmod(fd, 0o700); err != nil {
			return unsafe(dir, "has mode %o, and can't be given 700 (%v)", stat.Mode&0o777, err)
		}
	}
	return nil
}

// retry calls f until no signal interrupts it.
func retry[T any](f func() (T, error)) (T, error) {
	for {
		v, err := f()
		if err != unix.EINTR {
			return v, err
		}
	}
}
