package pebble

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"

	crdb "github.com/cockroachdb/pebble/v2"

	"kernos/message"
	"kernos/store"
)

// unwritable returns the error for callers that want to write.
func unwritable(dir string, err error) *store.Error {
	if e, ok := errors.AsType[*store.Error](err); ok {
		return e
	}
	switch {
	case full(err):
		return store.Errorf(507, err, "The disk is full: the store in %s takes no changes until there is room again", dir)
	case forbidden(err):
		return store.Errorf(503, err, "The store in %s can't be written: allow this user to write there", dir)
	}
	return store.Errorf(503, err, "The disk of the store in %s fails: it takes no changes until the disk does again", dir)
}

// unreadable returns the error for a directory or file that this user can't read.
func unreadable(dir string, err error) error {
	if errors.Is(err, fs.ErrPermission) {
		return store.Errorf(503, err, "The store in %s can't be read: allow this user to read and write there, or use another KERNOS_HOME", dir)
	}
	if errors.Is(err, syscall.ENOTDIR) {
		return store.Errorf(503, err, "There can be no store in %s, because something above it is not a directory: use another KERNOS_HOME", dir)
	}
	return store.Errorf(503, err, "The store in %s can't be read: look after the disk, or restore a backup with `kernos restore FILE`", dir)
}

// damage returns the error for a directory of ours that is not whole. If name is "", the error names the file.
func damage(dir, name string, err error) *store.Error {
	if e, ok := errors.AsType[*store.Error](err); ok {
		return e
	}
	name = cmp.Or(name, damagedFile(dir, err))
	what := "a file"
	if name != "" {
		what = "the file " + name
	}
	state := "is damaged"
	if errors.Is(err, os.ErrNotExist) {
		state = "is missing"
	}
	return store.Errorf(500, firstLine{err}, "The store in %s is damaged: %s %s; move the directory away and restore a backup with `kernos restore FILE`", dir, what, state)
}

// fileNames matches the names of Pebble's files in the texts of its errors.
var fileNames = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`MANIFEST-\d+|OPTIONS-\d+|marker\.[\w-]+(\.[\w-]+)*|\d{6,}\.(sst|blob|log)|\b\d{6}\b`)
})

// damagedFile returns the name of the file of Pebble that an error is about, or "". Pebble returns it as data for tables
// and blobs of an open store only. All other errors have it in their texts or in the details that %+v adds, where some
// have only its number; the tests of damaged directories compare the names that are found.
func damagedFile(dir string, err error) string {
	if info := crdb.ExtractDataCorruptionInfo(err); info != nil {
		return filepath.Base(info.Path)
	}
	name := fileNames().FindString(fmt.Sprintf("%+v", err))
	if name == "" || strings.Trim(name, "0123456789") != "" {
		return name
	}
	for _, end := range []string{".sst", ".blob", ".log"} {
		if _, missing := os.Stat(filepath.Join(dir, name+end)); missing == nil {
			return name + end
		}
	}
	return name + ".sst"
}

// A firstLine is an error of Pebble with the first line of its text. What follows is for
// Pebble itself.
type firstLine struct{ error }

func (e firstLine) Error() string {
	line, _, _ := strings.Cut(e.error.Error(), "\n")
	return line
}

func (e firstLine) Unwrap() error { return e.error }

// showText returns a text that may be long, as errors show it.
func showText(s string) string { return strconv.Quote(message.Clip(s, 60)) }

// full reports whether an error means that the disk is full.
func full(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

// forbidden reports whether an error means that this user may not write.
func forbidden(err error) bool {
	return errors.Is(err, syscall.EROFS) || errors.Is(err, syscall.EACCES) || errors.Is(err, syscall.EPERM)
}
