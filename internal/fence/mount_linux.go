package fence

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// sameMount reports whether a directory that is open is on the same mount as a path. On an old
// system that doesn't show it, the result is false.
func sameMount(dir *os.File, path string) bool {
	var one, other unix.Statx_t
	err := control(dir, func(fd int) error { return unix.Statx(fd, "", unix.AT_EMPTY_PATH, unix.STATX_MNT_ID, &one) })
	if err != nil || unix.Statx(unix.AT_FDCWD, path, 0, unix.STATX_MNT_ID, &other) != nil {
		return false
	}
	return one.Mask&other.Mask&unix.STATX_MNT_ID != 0 && one.Mnt_id == other.Mnt_id
}

// boundTo reports whether a file that is open is in a private directory, seen from the root of
// their file system: the list of mounts names which part of it each mount shows, and where.
func boundTo(file *os.File, private string) (bool, error) {
	dir, err := os.Open(private)
	if err != nil {
		return false, err
	}
	defer func() { _ = dir.Close() }()
	shown, err := readMounts()
	if err != nil {
		return false, err
	}
	outer, err := shown.place(dir)
	if err != nil {
		return false, err
	}
	inner, err := shown.place(file)
	if err != nil {
		return false, err
	}
	rel, err := filepath.Rel(outer, inner)
	return err == nil && filepath.IsLocal(rel), nil
}

// A mount shows a part of a file system at a path.
type mount struct{ root, point string }

type mounts map[string]mount // by id

// readMounts reads the mounts that this process sees.
func readMounts() (mounts, error) {
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	all := mounts{}
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if fields := strings.Fields(lines.Text()); len(fields) > 4 { // id, parent, device, root, point
			all[fields[0]] = mount{unescape(fields[3]), unescape(fields[4])}
		}
	}
	return all, lines.Err()
}

// unescape reads a path as the list of mounts has it: \040 is a space.
func unescape(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) {
			if n, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(n))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// place returns where a file that is open is in its file system.
func (all mounts) place(file *os.File) (path string, err error) {
	err = control(file, func(fd int) (err error) {
		number := strconv.Itoa(fd)
		if path, err = os.Readlink("/proc/self/fd/" + number); err != nil {
			return err
		}
		info, err := os.ReadFile("/proc/self/fdinfo/" + number)
		if err != nil {
			return err
		}
		_, rest, _ := strings.Cut(string(info), "mnt_id:")
		id, _, _ := strings.Cut(strings.TrimSpace(rest), "\n")
		m, known := all[id]
		rel, err := filepath.Rel(m.point, path)
		if !known || err != nil || !filepath.IsLocal(rel) {
			return fmt.Errorf("%w: the mount of %s isn't known", ErrMoved, path)
		}
		path = filepath.Join(m.root, rel)
		return nil
	})
	return path, err
}
