package vfs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"syscall"

	"kernos/internal/rootdir"
	"kernos/message"
)

// What drivers find, beside what [fs] and [syscall] have names for. The tree puts them into words, since it knows the URI.
var (
	ErrDirectory    = errors.New("it is a directory")
	ErrNotDirectory = errors.New("it is not a directory")
	ErrIrregular    = errors.New("it is not a regular file")
	ErrLink         = errors.New("it is a symbolic link")
	ErrNotEmpty     = errors.New("the directory is not empty")
	ErrTooLarge     = errors.New("the file is too large")
	ErrAbove        = errors.New("what is above it is a file")
	ErrName         = errors.New("a name is too long")
	errUnlistable   = errors.New("the mount can't be listed")
	ErrPrivate      = errors.New("it belongs to the kernel")
	ErrHolds        = errors.New("what belongs to the kernel is in it")
)

// ErrUnnamed says that a directory has an entry that no URI can name.
var ErrUnnamed = errors.New("the name can't be written in a URI")

// A VersionError is what a write finds that expects another version.
type VersionError struct{ Expected, Actual string }

func (e *VersionError) Error() string { return "the file has another version" }

// explain puts an error of a driver into words for the caller. What it does not know goes
// to the log by way of the kernel. No text has anything of the content of a file.
func explain(uri string, err error) error {
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[*message.Error](err); ok {
		return err
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	shown := message.Clip(uri, 400)
	if v, ok := errors.AsType[*VersionError](err); ok {
		return wrongVersion(shown, v)
	}
	switch {
	case errors.Is(err, ErrDirectory), errors.Is(err, syscall.EISDIR):
		return message.Errorf(422, "%s is a directory: VFS.List shows what is in it", shown)
	case errors.Is(err, ErrNotDirectory):
		return message.Errorf(422, "%s is a file and has nothing below it: VFS.Read reads it", shown)
	case errors.Is(err, ErrAbove):
		return message.Errorf(422, "%s can't be written: a name in its path is that of a file", shown)
	case errors.Is(err, ErrName):
		return message.Errorf(422, "%s can't be written: a name in its path is longer than the file system takes", shown)
	case errors.Is(err, ErrIrregular), errors.Is(err, syscall.ENXIO):
		return message.Errorf(403, "Operation not allowed: %s is a device, a pipe or a socket, not a regular file", shown)
	case errors.Is(err, ErrLink):
		return message.Errorf(403, "Operation not allowed: %s is a symbolic link, and writing would replace it; write to the file that it points to", shown)
	case errors.Is(err, ErrNotEmpty), errors.Is(err, syscall.ENOTEMPTY):
		return message.Errorf(409, "%s is not empty: delete what is in it first, or say recursive", shown)
	case errors.Is(err, ErrTooLarge):
		return message.Errorf(413, "%s is larger than %d bytes, which is the most that is read or written at once", shown, int64(MaxFile))
	case errors.Is(err, ErrPrivate):
		return message.Errorf(403, "Operation not allowed: %s belongs to the kernel, and can't be reached by the tree of files; use files outside of KERNOS_HOME", shown)
	case errors.Is(err, ErrHolds):
		return message.Errorf(403, "Operation not allowed: %s can't be deleted, since the state of the kernel (KERNOS_HOME) is in it; delete what else is in it", shown)
	case errors.Is(err, errUnlistable):
		return message.Errorf(403, "Operation not allowed: what is in %s can't be listed; read its files by their names", shown)
	case rootdir.Escapes(err):
		return message.Errorf(403, "Operation not allowed: %s leads out of its mount", shown)
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR), errors.Is(err, syscall.ENAMETOOLONG):
		return missing(uri)
	case errors.Is(err, syscall.ELOOP):
		return message.Errorf(422, "%s is a symbolic link that leads in circles", shown)
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		return message.Errorf(403, "Operation not allowed: the file system denies the kernel access to %s", shown)
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return message.Errorf(507, "The disk is full: make room, and write %s again", shown)
	}
	return fmt.Errorf("vfs: %s: %w", shown, err)
}

func missing(uri string) *message.Error {
	return message.Errorf(404, "File not found: %s", message.Clip(uri, 400))
}

// refused is the error for what a mount can't do.
func refused(uri, what string, m *mount) *message.Error {
	return message.Errorf(403, "Operation not allowed: %s can't be %s (the mount /%s is %s)", message.Clip(uri, 400), what, m.path, m.can)
}

func wrongVersion(uri string, e *VersionError) *message.Error {
	const again = "; read it again and retry"
	switch {
	case Expect(e.Expected) == Absent:
		return message.Errorf(409, "Version mismatch: %s was expected not to exist and has version %s"+again, uri, e.Actual)
	case Expect(e.Actual) == Absent:
		return message.Errorf(409, "Version mismatch: %s was expected to have version %s and does not exist"+again, uri, message.Clip(e.Expected, 100))
	}
	return message.Errorf(409, "Version mismatch: %s was expected to have version %s and has version %s"+again, uri, message.Clip(e.Expected, 100), e.Actual)
}
