// Package fence keeps what belongs to the kernel out of reach: its home and its runtime
// directory. It decides on what has been opened, never on a path that is opened again: a path
// may lead elsewhere by then.
//
//	f, err := os.Open(path)
//	err = fence.Check(f, path) // ErrPrivate, and nothing of f has been read
//
// A file has no way up to its directory, so [Fence.Check] looks for the directory, and makes
// sure by device and inode that it is the one that the file is in. Directories are identified by
// device and inode too, from the descriptor upwards, so that other spellings and links of them
// are known. What is on another mount of the same device may be a bind mount of something in a
// private directory; the list of mounts shows it. A file with several hard links is compared with all
// files in there.
package fence

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

var (
	// ErrPrivate means that a file or a directory belongs to the kernel.
	ErrPrivate = errors.New("it belongs to the kernel")

	// ErrMoved means that another file has taken the place of the one that was opened, so that
	// it is not known where that is. It may be opened again.
	ErrMoved = errors.New("it was replaced while it was opened")
)

// A Fence is a list of directories that are out of reach, with everything below them. Directories
// that don't exist are ignored.
type Fence []string

// An id identifies a file or a directory.
type id struct{ dev, ino uint64 }

func idOf(s *unix.Stat_t) id { return id{uint64(s.Dev), s.Ino} } //nolint:unconvert // the fields have other types on other systems

// CheckDir returns ErrPrivate if a directory that is open is private, or is in one that is.
func (f Fence) CheckDir(dir *os.File) error {
	above, err := upwards(dir)
	if err != nil {
		return err
	}
	for _, private := range f {
		var s unix.Stat_t
		if unix.Stat(private, &s) != nil {
			continue
		}
		if slices.Contains(above, idOf(&s)) {
			return ErrPrivate
		}
		if err := checkMount(dir, above[0].dev, private, &s); err != nil {
			return err
		}
	}
	return nil
}

// checkMount returns ErrPrivate if a file or a directory that is open, on a device, is a bind mount
// of something in a private directory, or is below one: only a bind mount leads into that and not
// through it. It has the same device and another mount.
func checkMount(file *os.File, device uint64, private string, s *unix.Stat_t) error {
	if idOf(s).dev != device || sameMount(file, private) {
		return nil
	}
	inside, err := boundTo(file, private)
	if err == nil && inside {
		err = ErrPrivate
	}
	return err
}

// upwards returns what a directory that is open is, and the directories above it.
func upwards(dir *os.File) (all []id, err error) {
	err = control(dir, func(fd int) error {
		for at := "."; ; at += "/.." {
			var s unix.Stat_t
			if err := unix.Fstatat(fd, at, &s, 0); err != nil {
				return err
			}
			if len(all) > 0 && idOf(&s) == all[len(all)-1] {
				return nil // the root
			}
			all = append(all, idOf(&s))
		}
	})
	return all, err
}

// control calls do with the descriptor of a file, which stays open meanwhile.
func control(file *os.File, do func(fd int) error) error {
	conn, err := file.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = conn.Control(func(fd uintptr) { failed = do(int(fd)) })
	return errors.Join(err, failed)
}

// Below reports whether a private directory is a directory that is open, or in it.
func (f Fence) Below(dir *os.File) (bool, error) {
	own, err := upwards(dir)
	if err != nil {
		return false, err
	}
	for _, private := range f {
		d, err := os.Open(private)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return false, err
		}
		above, err := upwards(d)
		if err = errors.Join(err, d.Close()); err != nil {
			return false, err
		}
		if slices.Contains(above, own[0]) {
			return true, nil
		}
	}
	return false, nil
}

// Check returns ErrPrivate if a regular file that was opened by a path is private, and
// ErrMoved if that can no longer be decided.
func (f Fence) Check(file *os.File, path string) error {
	if len(f) == 0 {
		return nil
	}
	opened, err := stat(file)
	if err != nil {
		return err
	}
	_, dir, err := find(file, path)
	if err != nil {
		return err
	}
	defer func() { _ = dir.Close() }()
	if err := f.CheckDir(dir); err != nil {
		return err
	}
	for _, private := range f { // a single file may be mounted, too
		var s unix.Stat_t
		if unix.Stat(private, &s) != nil {
			continue
		}
		if err := checkMount(file, idOf(&opened).dev, private, &s); err != nil {
			return err
		}
	}
	if opened.Nlink > 1 && f.links(idOf(&opened)) {
		return ErrPrivate
	}
	return nil
}

// Find returns where a regular file is that was opened by a path: a path without links in it. If
// that can no longer be decided, it returns ErrMoved.
func Find(file *os.File, path string) (string, error) {
	at, dir, err := find(file, path)
	if err != nil {
		return "", err
	}
	return at, dir.Close()
}

// Place returns where a file or a directory is that was opened by a path, as the system reports it at the moment. On
// systems that report nothing, it is where the path leads now.
func Place(file *os.File, path string) (string, error) { return place(file, path) }

// find returns where a file is, and its directory.
func find(file *os.File, path string) (at string, dir *os.File, err error) {
	opened, err := stat(file)
	if err != nil {
		return "", nil, err
	}
	if at, err = place(file, path); err != nil {
		return "", nil, moved(err)
	}
	dir, err = os.OpenFile(filepath.Dir(at), os.O_RDONLY|unix.O_DIRECTORY|unix.O_NONBLOCK, 0)
	if err != nil {
		return "", nil, moved(err)
	}
	if err := holds(dir, filepath.Base(at), idOf(&opened)); err != nil {
		return "", nil, errors.Join(moved(err), dir.Close())
	}
	return at, dir, nil
}

// moved makes an error ErrMoved if it means that something isn't where it was.
func moved(err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) || errors.Is(err, unix.ENXIO) {
		return ErrMoved
	}
	return err
}

func stat(file *os.File) (s unix.Stat_t, err error) {
	err = control(file, func(fd int) error { return unix.Fstat(fd, &s) })
	return s, err
}

// place guesses where a file that is open is.
func place(file *os.File, path string) (at string, err error) {
	err = control(file, func(fd int) (err error) {
		at, err = os.Readlink("/proc/self/fd/" + strconv.Itoa(fd))
		return err
	})
	if err == nil && strings.HasPrefix(at, "/") {
		return at, nil
	}
	return filepath.EvalSymlinks(path)
}

// holds fails unless a directory has a file under a name.
func holds(dir *os.File, name string, file id) error {
	var s unix.Stat_t
	err := control(dir, func(fd int) error { return unix.Fstatat(fd, name, &s, unix.AT_SYMLINK_NOFOLLOW) })
	if err == nil && idOf(&s) != file {
		err = ErrMoved
	}
	return err
}

// links reports whether a file has a name in a private directory.
func (f Fence) links(file id) (found bool) {
	for _, dir := range f {
		_ = filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
			var s unix.Stat_t
			if err == nil && !e.IsDir() && unix.Lstat(path, &s) == nil && idOf(&s) == file {
				found = true
				return fs.SkipAll
			}
			return nil // a file that has gone meanwhile has no name there
		})
	}
	return found
}
