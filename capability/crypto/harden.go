package crypto

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// Harden keeps what is in this process's memory out of core dumps, and on Linux from other
// processes of the same user. It is for the start of a program that has a keyring. The limit of
// core dumps can be raised again, so that programs which are started from here may have theirs
// if they ask for it.
func Harden() error {
	var limit unix.Rlimit
	err := unix.Getrlimit(unix.RLIMIT_CORE, &limit)
	if err == nil {
		limit.Cur = 0
		err = unix.Setrlimit(unix.RLIMIT_CORE, &limit)
	}
	if err != nil {
		err = fmt.Errorf("a crash may write secrets into a core dump: %w", err)
	}
	return errors.Join(err, hide())
}
