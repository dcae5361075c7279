package main

import (
	"errors"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// A purpose is what blobs are held for.
type purpose int

const (
	toRead   purpose = unix.LOCK_SH                // waits for who removes them
	toRemove purpose = unix.LOCK_EX | unix.LOCK_NB // is refused while somebody reads them
)

// errHeld says that somebody reads the blobs.
var errHeld = errors.New("the blobs are in use")

// holdBlobs keeps who removes the blobs of an origin apart from who reads more of them than
// the store refers to by now: a backup, which has the state of an earlier moment. It ends
// with the process.
func holdBlobs(dir string, what purpose) (release func(), err error) {
	f, err := os.OpenFile(filepath.Join(dir, "blobs.lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if errors.Is(err, unix.EROFS) || errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) {
		return func() {}, nil // then nobody can remove anything, or wants to
	}
	if err != nil {
		return nil, err
	}
	for {
		switch err = unix.Flock(int(f.Fd()), int(what)); {
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.EWOULDBLOCK):
			return nil, errors.Join(errHeld, f.Close())
		case err != nil:
			return nil, errors.Join(&os.PathError{Op: "lock", Path: f.Name(), Err: err}, f.Close())
		default:
			return func() { _ = f.Close() }, nil
		}
	}
}
