package pebble

import (
	"errors"
	"io/fs"
	"os"
)

// Lock keeps all processes from the store in a directory, for a caller that moves it as a
// whole, until release is called. A store that is in use can't be locked, and the error
// says who uses it. Where there is no directory there is nothing to lock.
func Lock(dir string) (release func(), err error) {
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return func() {}, nil
	}
	l, err := acquire(dir)
	if err != nil {
		return nil, err
	}
	return func() { l.undo() }, nil
}
