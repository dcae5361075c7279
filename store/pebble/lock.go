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
// content says who that is.
const lockName = "LOCK.kernos"

// An owner is a process that has a store open.
type owner struct {
	pid     int
	command string
	since   time.Time
	address string // where it is reached, if anywhere
}

// maxOwner is more than what any owner takes.
const maxOwner = 4096

func (o owner) encode() []byte {
	text := fmt.Appendf(nil, "pid %d\nsince %s\ncommand %s\n", o.pid, o.since.Format(time.RFC3339), o.command)
	if o.address != "" {
		text = fmt.Appendf(text, "address %q\n", o.address)
	}
	return text
}

// parseOwner reads what encode has written.
func parseOwner(text []byte) (o owner, ok bool) {
	for line := range bytes.Lines(text) {
		key, value, _ := strings.Cut(strings.TrimSuffix(string(line), "\n"), " ")
		var err error
		switch key {
		case "pid":
			o.pid, err = strconv.Atoi(value)
		case "since":
			o.since, err = time.Parse(time.RFC3339, value)
		case "command":
			o.command = value
		case "address":
			o.address, err = strconv.Unquote(value)
		}
		if err != nil {
			return owner{}, false
		}
	}
	return o, o.pid > 0 && o.command != "" && !o.since.IsZero() && printable(o.command)
}

// printable keeps what isn't the name of a command out of error texts.
func printable(s string) bool {
	return len(s) <= 80 && strings.IndexFunc(s, func(r rune) bool { return !strconv.IsPrint(r) }) < 0
}

// self is this process, which is reached at an address.
func self(address string) owner {
	command := filepath.Base(os.Args[0])
	// The name of a subcommand says what it is; any other argument may be a secret.
	if len(os.Args) > 1 && len(os.Args[1]) < 20 && strings.Trim(os.Args[1], "abcdefghijklmnopqrstuvwxyz") == "" {
		command += " " + os.Args[1]
	}
	if !printable(command) {
		command = "kernos"
	}
	return owner{pid: os.Getpid(), command: command, since: time.Now(), address: address}
}

// A lock keeps other processes, and other engines of this one, from a directory. It ends
// with the process.
type lock struct {
	file *os.File
	made bool // the file was not there before
}

// errHeld reports that another process has the lock.
var errHeld = errors.New("the store is in use")

// acquire takes the lock of a directory. If another process has it, the error is an
// errHeld and names them.
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
			continue // it was removed in between
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
	text, err := io.ReadAll(io.LimitReader(f, maxOwner))
	if err == nil {
		// While a process opens the store, the file still names the one before it.
		if o, ok := parseOwner(text); ok && unix.Kill(o.pid, 0) != unix.ESRCH {
			by = fmt.Sprintf("%s (process %d, since %s)", o.command, o.pid, o.since.Local().Format(time.DateTime))
			if o.address != "" {
				stop = "stop it with kernos stop"
			}
		}
	}
	return &held{store.Errorf(503, nil, "The store in %s is in use by %s; %s, or use another KERNOS_HOME", dir, by, stop)}
}

// A held is an errHeld that says who has the lock.
type held struct{ by *store.Error }

func (e *held) Error() string        { return e.by.Error() }
func (e *held) Unwrap() error        { return e.by }
func (e *held) Is(target error) bool { return target == errHeld }

// A Holder is a process that has a store open.
type Holder struct {
	PID     int
	Command string
	Since   time.Time
	Address string // what its Options say
}

// HeldBy returns who has the store in a directory open, as far as it is known. Of a process
// that opens it at this moment, or that is not seen from here, it is not.
func HeldBy(dir string) (Holder, bool) {
	f, err := os.Open(filepath.Join(dir, lockName))
	if err != nil {
		return Holder{}, false
	}
	defer func() { _ = f.Close() }()
	text, err := io.ReadAll(io.LimitReader(f, maxOwner))
	if err != nil {
		return Holder{}, false
	}
	o, ok := parseOwner(text)
	// Asking for a free lock keeps other processes from it for a moment, so only one that
	// is very likely held is asked for.
	if !ok || unix.Kill(o.pid, 0) == unix.ESRCH || unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB) == nil {
		return Holder{}, false
	}
	return Holder{PID: o.pid, Command: o.command, Since: o.since, Address: o.address}, true
}

// sign writes who has the lock.
func (l *lock) sign(o owner) error {
	text := o.encode()
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
	_ = l.file.Truncate(0) // a name that is out of date is told from one that is not
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
