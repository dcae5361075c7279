package crypto

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// noCore forbids core dumps. The limit can be raised again, so that programs which are
// started from here may have theirs if they ask for it.
func noCore() error {
	var limit unix.Rlimit
	err := unix.Getrlimit(unix.RLIMIT_CORE, &limit)
	if err == nil {
		limit.Cur = 0
		err = unix.Setrlimit(unix.RLIMIT_CORE, &limit)
	}
	if err != nil {
		return fmt.Errorf("a crash may write secrets into a core dump: %w", err)
	}
	return nil
}
