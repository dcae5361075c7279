package main

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// exchange gives two directories each other's name, in one step. Where that can't be done
// at all, the error is an [errors.ErrUnsupported].
func exchange(a, b string) error {
	err := unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_EXCHANGE)
	if errors.Is(err, unix.EINVAL) { // what a file system says that does not know how
		err = fmt.Errorf("%w: %w", errors.ErrUnsupported, err)
	}
	if err != nil {
		return &os.LinkError{Op: "exchange", Old: a, New: b, Err: err}
	}
	return nil
}
