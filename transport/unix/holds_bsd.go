//go:build darwin || freebsd

package unix

import (
	"encoding/json"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// holds reports whether a process, by its number here, holds the lock of a file. These
// systems do not say who does; the file does, and a number means the same process everywhere.
func holds(pid int, f *os.File) (bool, error) {
	if flock(f, unix.LOCK_SH) == nil {
		return false, nil
	}
	var info Info
	text, err := io.ReadAll(io.NewSectionReader(f, 0, maxInfo))
	if err == nil {
		err = json.Unmarshal(text, &info)
	}
	return err == nil && info.PID == pid, err
}
