// Package rootdir names the error with which [os.Root] refuses a path that leads out of its
// directory. The standard library has no exported name for this error.
package rootdir

import (
	"errors"
	"io/fs"
	"os"
	"sync"
)

// Escapes reports whether err means that a path leads out of an [os.Root].
func Escapes(err error) bool {
	escape := sentinel()
	return escape != nil && errors.Is(err, escape)
}

// sentinel provokes the error once. All methods of os.Root wrap the same value.
var sentinel = sync.OnceValue(func() error {
	root, err := os.OpenRoot(string(os.PathSeparator))
	if err != nil {
		return nil
	}
	defer func() { _ = root.Close() }()
	_, err = root.Lstat("..")
	if path, ok := errors.AsType[*fs.PathError](err); ok {
		return path.Err
	}
	return nil
})
