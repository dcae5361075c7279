package crypto

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// Harden keeps what is in this process's memory out of core dumps, and from other processes
// of the same user. It is for the start of a program that has a keyring.
func Harden() error {
	err := noCore()
	if denied := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); denied != nil {
		err = errors.Join(err, fmt.Errorf("other processes may look into this one: %w", denied))
	}
	return err
}
