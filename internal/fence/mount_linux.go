package fence

import (
	"os"

	"golang.org/x/sys/unix"
)

// sameMount reports whether a directory that is open is on the same mount as a path. An old
// system that can't tell says no.
func sameMount(dir *os.File, path string) bool {
	conn, err := dir.SyscallConn()
	if err != nil {
		return false
	}
	var one, other unix.Statx_t
	var failed error
	err = conn.Control(func(fd uintptr) { failed = unix.Statx(int(fd), "", unix.AT_EMPTY_PATH, unix.STATX_MNT_ID, &one) })
	if err != nil || failed != nil || unix.Statx(unix.AT_FDCWD, path, 0, unix.STATX_MNT_ID, &other) != nil {
		return false
	}
	return one.Mask&other.Mask&unix.STATX_MNT_ID != 0 && one.Mnt_id == other.Mnt_id
}
