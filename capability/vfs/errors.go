package vfs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"

	"kernos/internal/rootdir"
	"kernos/message"
)

// A Fault is what a driver finds, in words for the caller. The tree knows the URI and puts it
// in the place of %s. No text has anything of the content of a file.
type Fault struct {
	code int
	text string
}

func (f *Fault) Error() string { return f.text }

// The faults of files and directories.
var (
	ErrDirectory    = &Fault{422, "%s is a directory: VFS.List shows what is in it"}
	ErrNotDirectory = &Fault{422, "%s is a file and has nothing below it: VFS.Read reads it"}
	ErrAbove        = &Fault{422, "%s can't be written: a name in its path is that of a file"}
	ErrName         = &Fault{422, "%s can't be written: a name in its path is longer than the file system takes"}
	ErrIrregular    = &Fault{403, "Operation not allowed: %s is a device, a pipe or a socket, not a regular file"}
	ErrLink         = &Fault{403, "Operation not allowed: %s is a symbolic link, and writing would replace it; write to the file that it points to"}
	ErrNotEmpty     = &Fault{409, "%s is not empty: delete its entries first, or set recursive"}
	ErrTooLarge     = &Fault{413, fmt.Sprintf("%%s is larger than %d bytes, which is the most that is read or written at once", MaxFile)}
	ErrPrivate      = &Fault{403, "Operation not allowed: %s belongs to the kernel, and can't be reached by the tree of files; use files outside of KERNOS_HOME"}
	ErrMoved        = &Fault{503, "%s keeps being replaced while it is opened, so it can't be checked that it lies outside of KERNOS_HOME; try again when it no longer changes"}
	ErrHolds        = &Fault{403, "Operation not allowed: %s can't be deleted, since the state of the kernel (KERNOS_HOME) is in it; delete what else is in it"}
	ErrUnlistable   = &Fault{403, "Operation not allowed: what is in %s can't be listed; read its files by their names"}
	errEscapes      = &Fault{403, "Operation not allowed: %s leads out of its mount"}
	errMissing      = &Fault{404, "File not found: %s"}
	errCircular     = &Fault{422, "%s is a symbolic link that leads in circles"}
	errDenied       = &Fault{403, "Operation not allowed: the file system denies the kernel access to %s"}
	errFull         = &Fault{507, "The disk is full: make room, and write %s again"}
)

// systemErrors are what the errors of a file system mean.
var systemErrors = []struct {
	err   error
	means *Fault
}{
	{syscall.EISDIR, ErrDirectory}, {syscall.ENXIO, ErrIrregular}, {syscall.ENOTEMPTY, ErrNotEmpty},
	{fs.ErrNotExist, errMissing}, {syscall.ENOTDIR, errMissing}, {syscall.ENAMETOOLONG, errMissing},
	{syscall.ELOOP, errCircular}, {fs.ErrPermission, errDenied}, {syscall.EROFS, errDenied},
	{syscall.ENOSPC, errFull}, {syscall.EDQUOT, errFull},
}

// NoMount returns the error for a path that is in no mount.
func NoMount(path string) error {
	return message.Errorf(502, "VFS fetch failed: no matching mount for os:///%s and root is undefined", message.Clip(path, 400))
}

// ErrUnnamed means that a directory has an entry that no URI can name.
var ErrUnnamed = errors.New("the name can't be written in a URI")

// Check fails unless a file has the version that is expected; [Absent] is that of a file that
// does not exist.
func (e Expect) Check(actual string) error {
	text := "Version mismatch: %s was expected "
	switch {
	case e == "" || string(e) == actual:
		return nil
	case e == Absent:
		text += "not to exist and has version " + actual
	case Expect(actual) == Absent:
		text += "to have version " + message.Clip(string(e), 100) + " and does not exist"
	default:
		text += "to have version " + message.Clip(string(e), 100) + " and has version " + actual
	}
	return &Fault{409, text + "; read it again and retry"}
}

// explain puts an error of a driver into words for the caller. What it does not know goes
// to the log by way of the kernel. The driver's error is the reason.
func explain(uri string, err error) error {
	if err == nil || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	if _, ok := errors.AsType[*message.Error](err); ok {
		return err
	}
	uri = message.Clip(uri, 400)
	fault, known := errors.AsType[*Fault](err)
	if !known && rootdir.Escapes(err) {
		fault, known = errEscapes, true
	}
	for i := 0; !known && i < len(systemErrors); i++ {
		fault, known = systemErrors[i].means, errors.Is(err, systemErrors[i].err)
	}
	if !known {
		return fmt.Errorf("vfs: %s: %w", uri, err)
	}
	return &message.Error{Code: fault.code, Message: strings.Replace(fault.text, "%s", uri, 1), Reason: err}
}
