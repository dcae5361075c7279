package pebble

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"kernos/store"
)

// lockName is the file that the process which has the store open holds a lock on. Its
// content names that process.
const lockName = "LOCK.kernos"

// A Holder is a process that has a store open.
type Holder struct {
	PID     int
	Command string
	Since   time.Time
	Address string // Options.Address of that process
}

// maxHolder is more bytes than the text of any holder has.
const maxHolder = 4096

func (h Holder) encode() []byte {
	text := fmt.Appendf(nil, "pid %d\nsince %s\ncommand %s\n", h.PID, h.Since.Format(time.RFC3339), h.Command)
	if h.Address != "" {
		text = fmt.Appendf(text, "address %q\n", h.Address)
	}
	return text
}

// readHolder reads what encode has written. A process that has ended doesn't hold the lock.
func readHolder(f *os.File) (Holder, bool) {
	text, err := io.ReadAll(io.LimitReader(f, maxHolder))
	if err != nil {
		return Holder{}, false
	}
	h, ok := parseHolder(text)
	return h, ok && unix.Kill(h.PID, 0) != unix.ESRCH
}

func parseHolder(text []byte) (h Holder, ok bool) {
	for line := range bytes.Lines(text) {
		key, value, _ := strings.Cut(strings.TrimSuffix(string(line), "\n"), " ")
		var err error
		switch key {
		case "pid":
			h.PID, err = strconv.Atoi(value)
		case "since":
			h.Since, err = time.Parse(time.RFC3339, value)
		case "command":
			h.Command = value
		case "address":
			h.Address, err = strconv.Unquote(value)
		}
		if err != nil {
			return Holder{}, false
		}
	}
	return h, h.PID > 0 && h.Command != "" && !h.Since.IsZero() && printable(h.Command)
}

// printable keeps what isn't the name of a command out of error texts.
func printable(s string) bool {
	return len(s) <= 80 && strings.IndexFunc(s, func(r rune) bool { return !strconv.IsPrint(r) }) < 0
}

// self is this process, which is reached at an address.
func self(address string) Holder {
	command := filepath.Base(os.Args[0])
	// The name of a subcommand is known; any other argument may be a secret.
	if len(os.Args) > 1 && len(os.Args[1]) < 20 && strings.Trim(os.Args[1], "abcdefghijklmnopqrstuvwxyz") == "" {
		command += " " + os.Args[1]
	}
	if !printable(command) {
		command = "kernos"
	}
	return Holder{PID: os.Getpid(), Command: command, Since: time.Now(), Address: address}
}

// A lock keeps other processes, and other engines of this one, from a directory. It ends
// with the process.
type lock struct {
	file *os.File
	made bool // the file was not there before
}

// acquire takes the lock of a directory. If another process has it, the error is a
// [store.ErrInUse] and names them.
func acquire(dir string) (*lock, error) {
	path := filepath.Join(dir, lockName)
	for {
		made := true
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
		if errors.Is(err, fs.ErrExist) {
			made = false
			f, err = os.OpenFile(path, os.O_RDWR, 0)
		}
		if errors.Is(err, fs.ErrNotExist) && !made {
			continue // the file was removed in between
		}
		if err != nil {
			return nil, unwritable(dir, err)
		}
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if errors.Is(err, unix.EWOULDBLOCK) {
			err = inUse(dir, f)
		} else if err != nil {
			err = store.Errorf(503, err, "The file %s can't be locked: use a KERNOS_HOME on a local disk", path)
		}
		if err != nil {
			_ = f.Close()
			return nil, err
		}
		// A lock on a file that has been removed keeps no process away.
		mine, err := f.Stat()
		if err == nil {
			var there os.FileInfo
			if there, err = os.Stat(path); err == nil && os.SameFile(mine, there) {
				return &lock{file: f, made: made}, nil
			}
		}
		_ = f.Close()
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, unwritable(dir, err)
		}
	}
}

func inUse(dir string, f *os.File) error {
	by, stop := "another process", "stop it"
	// While a process opens the store, the file still names the one before it.
	if h, ok := readHolder(f); ok {
		by = fmt.Sprintf("%s (process %d, since %s)", h.Command, h.PID, h.Since.Local().Format(time.DateTime))
		if h.Address != "" {
			stop = "stop it with kernos stop"
		}
	}
	return &held{store.Errorf(503, nil, "The store in %s is in use by %s; %s, or use another KERNOS_HOME", dir, by, stop)}
}

// A held is a [store.ErrInUse] that names the process that has the lock.
type held struct{ by *store.Error }

func (e *held) Error() string        { return e.by.Error() }
func (e *held) Unwrap() error        { return e.by }
func (e *held) Is(target error) bool { return target == store.ErrInUse }

// HeldBy returns the process that has the store in a directory open. It returns false if that process
// isn't known: because it opens the store at this moment, or can't be seen from this process.
func HeldBy(dir string) (Holder, bool) {
	f, err := os.Open(filepath.Join(dir, lockName))
	if err != nil {
		return Holder{}, false
	}
	defer func() { _ = f.Close() }()
	h, ok := readHolder(f)
	// Asking for a free lock keeps other processes from it for a moment, so only one that
	// is very likely held is asked for.
	if !ok || unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB) == nil {
		return Holder{}, false
	}
	return h, true
}

// sign writes who has the lock.
func (l *lock) sign(h Holder) error {
	text := h.encode()
	if _, err := l.file.WriteAt(text, 0); err != nil {
		return err
	}
	return l.file.Truncate(int64(len(text)))
}

// release lets others have the lock.
func (l *lock) release() error {
	if l == nil {
		return nil
	}
	_ = l.file.Truncate(0) // then the file names no process
	return l.file.Close()
}

// undo lets others have the lock and leaves the directory as it was.
func (l *lock) undo() {
	if l == nil {
		return
	}
	if l.made {
		_ = os.Remove(l.file.Name())
	}
	_ = l.file.Close()
}

// Lock keeps all processes from the store in a directory, for a caller that moves it as a
// whole, until release is called. A store that is in use can't be locked, and the error
// names the process that uses it. Where there is no directory there is nothing to lock.
func Lock(dir string) (release func(), err error) {
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return func() {}, nil
	}
	l, err := acquire(dir)
	if err != nil {
		return nil, err
	}
	return func() { l.undo() }, nil
}
