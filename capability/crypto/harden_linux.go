package crypto

import (
	"fmt"

	"golang.org/x/sys/unix"
)

func hide() error {
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("other processes may look into this one: %w", err)
	}
	return nil
}
