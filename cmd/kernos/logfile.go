package main

import (
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/DeRuina/timberjack"
)

const (
	maxLogSize  = 10 // megabytes of one file
	maxOldLogs  = 4
	maxCrashLog = 1 << 20 // bytes
)

func (a *address) logFile() string { return filepath.Join(a.dir, "log", "kernos.log") }

// openLog opens the log of a daemon, which only its owner may read: JSON, one object a
// line, in files that are replaced when they are large. What is worth a person's attention
// goes to people as well, if there are any. A log that can't be written is no reason not to
// serve: it goes to standard error, or to those people, and says so, until the file can be
// opened. The caller closes it.
func openLog(path string, level slog.Leveler, people io.Writer) (log *slog.Logger, file *logFile, place string) {
	instead := &insteadOfFile{level: level, opened: noLevel}
	if people != nil {
		instead.opened = slog.LevelWarn
	} else {
		people = os.Stderr
	}
	file = &logFile{path: path}
	instead.file = file
	file.log = slog.New(slog.NewMultiHandler(
		slog.NewJSONHandler(file, &slog.HandlerOptions{Level: level}),
		slog.NewTextHandler(people, &slog.HandlerOptions{Level: instead}),
	))
	if file.failure = file.open(); file.failure != nil {
		file.log.Warn("The log can't be kept in a file, so it is written here; what else is written to this disk is likely to fail too", "file", path, "error", file.failure)
		place = "standard error"
	} else {
		place = path
	}
	return file.log, file, place
}

// noLevel is above all others.
const noLevel = slog.Level(math.MaxInt)

// insteadOfFile is the level of what is not for the file alone: everything until the file is
// open, and then less.
type insteadOfFile struct {
	file   *logFile
	level  slog.Leveler
	opened slog.Level
}

func (i *insteadOfFile) Level() slog.Level {
	if i.file.opened.Load() {
		return i.opened
	}
	return i.level.Level()
}

// A logFile is the file of a log. What is written before it is open is left out.
type logFile struct {
	path    string
	log     *slog.Logger // that is written to it
	failure error        // why it could not be opened at first
	opened  atomic.Bool

	mu      sync.Mutex
	rotated io.WriteCloser // nil until it is open
	midway  bool           // its last line is not whole
}

func (f *logFile) open() error {
	if err := prepareLog(f.path); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rotated = &timberjack.Logger{Filename: f.path, MaxSize: maxLogSize, MaxBackups: maxOldLogs, FileMode: 0o600, Compression: "none"}
	f.midway = endsMidway(f.path)
	f.opened.Store(true)
	return nil
}

// tryAgain opens the file if it could not be opened before.
func (f *logFile) tryAgain() {
	if !f.opened.Load() && f.open() == nil {
		f.log.Warn("The log could not be kept in its file until now", "file", f.path, "error", f.failure)
	}
}

// Write implements [io.Writer]. A disk that becomes full takes a part of a line; the next one
// begins on its own.
func (f *logFile) Write(line []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.rotated == nil {
		return len(line), nil
	}
	begin := 0
	if f.midway {
		line, begin = append([]byte{'\n'}, line...), 1
	}
	n, err := f.rotated.Write(line)
	if n > 0 {
		f.midway = line[n-1] != '\n'
	}
	return max(n-begin, 0), err
}

// Close implements [io.Closer].
func (f *logFile) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.rotated == nil {
		return nil
	}
	return f.rotated.Close()
}

// endsMidway reports whether the last line of a file is not whole.
func endsMidway(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer func() { _ = f.Close() }()
	var last [1]byte
	if _, err := f.Seek(-1, io.SeekEnd); err != nil { // it is empty
		return false
	}
	_, err = f.Read(last[:])
	return err == nil && last[0] != '\n'
}

// prepareLog makes the directory of a log, and finds out now whether the log can be written:
// the library opens it when there is something to write.
func prepareLog(path string) error {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		return err
	}
	f, err := private(path)
	if err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	return logCrashes(filepath.Join(dir, "crash.log"))
}

// private opens a file to append to that only its owner may read.
func private(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	if err := f.Chmod(0o600); err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

// logCrashes lets the runtime write there what would go to standard error, which a daemon
// has none of, when the process crashes.
func logCrashes(path string) error {
	f, err := private(path)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // the runtime has its own
	if info, err := f.Stat(); err == nil && info.Size() > maxCrashLog {
		if err := f.Truncate(0); err != nil {
			return err
		}
	}
	return debug.SetCrashOutput(f, debug.CrashOptions{})
}

// unwritable reports whether an error says that a place on disk takes nothing new.
func unwritable(err error) bool {
	return errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS) || errors.Is(err, syscall.ENOSPC)
}
