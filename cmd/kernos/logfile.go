package main

import (
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"runtime/debug"
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
// serve: it goes to standard error, or to those people, and says so. The caller closes it.
func openLog(path string, level slog.Leveler, people io.Writer) (log *slog.Logger, file io.Closer, place string) {
	if err := prepareLog(path); err != nil {
		if people == nil {
			people = os.Stderr
		}
		log = slog.New(slog.NewTextHandler(people, &slog.HandlerOptions{Level: level}))
		log.Warn("The log can't be kept in a file, so it is written here; what else is written to this disk is likely to fail too", "file", path, "error", err)
		return log, io.NopCloser(nil), "standard error"
	}
	rotated := &timberjack.Logger{Filename: path, MaxSize: maxLogSize, MaxBackups: maxOldLogs, FileMode: 0o600, Compression: "none"}
	var handler slog.Handler = slog.NewJSONHandler(rotated, &slog.HandlerOptions{Level: level})
	if people != nil {
		handler = slog.NewMultiHandler(handler, slog.NewTextHandler(people, &slog.HandlerOptions{Level: slog.LevelWarn}))
	}
	return slog.New(handler), rotated, path
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
