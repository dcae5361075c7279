package server

import (
	"context"
	"io"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/DeRuina/timberjack"

	"kernos/daemon"
)

const (
	maxLogSize  = 10 // megabytes of one file
	maxOldLogs  = 4
	maxCrashLog = 1 << 20 // bytes
)

// LogPath returns the log of the daemon of a home.
func LogPath(h daemon.Home) string { return filepath.Join(h.State(), "log", "kernos.log") }

// OpenLog opens the log of a daemon, which only its owner may read: JSON, one object per line,
// in files that are replaced when they are large. What has the level shown goes to people as well,
// unless that is nil. A log that can't be written doesn't keep a daemon from serving: all of it
// goes to people, or to standard error, until the file can be opened. The caller closes it.
func OpenLog(path string, level slog.Leveler, people io.Writer, shown slog.Leveler) *LogFile {
	f := &LogFile{path: path, Place: path}
	fallback := &fallbackLevel{file: f, level: level, opened: noLevel}
	if people != nil {
		fallback.opened = shown
	} else {
		people = os.Stderr
	}
	f.Logger = slog.New(slog.NewMultiHandler(
		slog.NewJSONHandler(f, &slog.HandlerOptions{Level: level}),
		slog.NewTextHandler(people, &slog.HandlerOptions{Level: fallback}),
	))
	if f.failure = f.open(time.Now()); f.failure != nil {
		f.Place = "standard error"
		f.Warn("The log can't be kept in a file, so it is written here; what else is written to this disk is likely to fail too", "file", path, "error", f.failure)
	}
	return f
}

// noLevel is above all others.
const noLevel = slog.Level(math.MaxInt)

// fallbackLevel is the level of what goes to people: everything until the file is open, and
// then less.
type fallbackLevel struct {
	file   *LogFile
	level  slog.Leveler
	opened slog.Leveler
}

func (l *fallbackLevel) Level() slog.Level {
	if l.file.opened.Load() {
		return l.opened.Level()
	}
	return l.level.Level()
}

// A LogFile is a log and its file.
type LogFile struct {
	*slog.Logger
	path    string
	Place   string // where the log is, for people: path, or standard error
	failure error  // why the file could not be opened at first
	opened  atomic.Bool

	mu      sync.Mutex
	rotated io.WriteCloser // nil until the file is open
	tried   time.Time      // time of the last attempt to open the file
	midway  bool           // the last line of the file is incomplete
}

// reopenAfter is how long after a failure the file is tried again, when there is a line to log.
const reopenAfter = time.Minute

// open opens the file.
func (f *LogFile) open(now time.Time) error {
	f.tried = now
	if err := prepareLog(f.path); err != nil {
		return err
	}
	f.rotated = &timberjack.Logger{Filename: f.path, MaxSize: maxLogSize, MaxBackups: maxOldLogs, FileMode: 0o600, Compression: "none"}
	f.midway = endsMidway(f.path)
	f.opened.Store(true)
	return nil
}

// OnlyFile logs an error to the file and not to people.
func (f *LogFile) OnlyFile(text string, err error) {
	slog.New(slog.NewJSONHandler(f, nil)).Error(text, "error", err)
}

// Write implements [io.Writer]. A full disk takes a part of a line; the next line starts a new
// one. What is written before the file is open is left out.
func (f *LogFile) Write(line []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if now := time.Now(); f.rotated == nil {
		if now.Sub(f.tried) < reopenAfter || f.open(now) != nil {
			return len(line), nil
		}
		note := slog.NewJSONHandler(f.rotated, nil)
		r := slog.NewRecord(now, slog.LevelWarn, "The log could not be kept in its file until now", 0)
		r.Add("file", f.path, "error", f.failure)
		_ = note.Handle(context.Background(), r)
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
func (f *LogFile) Close() error {
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
	if _, err := f.Seek(-1, io.SeekEnd); err != nil { // the file is empty
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
