package daemon

import (
	"errors"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// errBlobsInUse reports that another process is reading the blobs.
var errBlobsInUse = errors.New("the blobs are in use")

// keepBlobs keeps the daemon of the home from removing blobs until release is called or this
// process ends. A backup needs it: its snapshot of the store may refer to blobs that the
// running kernel no longer needs.
func (h Home) keepBlobs() (release func(), err error) { return lockBlobs(h.State(), unix.LOCK_SH) }

// lockBlobs locks the blobs in the folder of an origin. Readers share the lock and wait for
// the exclusive one. An exclusive lock is asked for with unix.LOCK_NB, and is refused with
// errBlobsInUse while there are readers.
func lockBlobs(dir string, how int) (release func(), err error) {
	f, err := os.OpenFile(filepath.Join(dir, "blobs.lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if errors.Is(err, unix.EROFS) || errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) {
		return func() {}, nil // nothing is removed from such a disk
	}
	if err != nil {
		return nil, err
	}
	for {
		switch err = unix.Flock(int(f.Fd()), how); {
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.EWOULDBLOCK):
			return nil, errors.Join(errBlobsInUse, f.Close())
		case err != nil:
			return nil, errors.Join(&os.PathError{Op: "lock", Path: f.Name(), Err: err}, f.Close())
		default:
			return func() { _ = f.Close() }, nil
		}
	}
}
