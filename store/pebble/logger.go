package pebble

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"
)

// A logger writes what Pebble reports to the log of the operator.
type logger struct {
	log   *slog.Logger
	fatal func(error) // nil while nothing is written

	mu   sync.Mutex
	last problem // the last one that was logged
	at   time.Time
}

// A problem identifies what a line of the log is about. Pebble repeats what has failed, and each repetition has a text of
// its own: it names another file.
type problem struct {
	caller uintptr       // where in Pebble it was reported
	path   string        // the damaged file, or ""
	errno  syscall.Errno // of the system's error that caused it, or 0
}

// problemOf returns the problem that an error which Pebble reports to the function that calls problemOf is about.
func problemOf(path string, err error) problem {
	p := problem{path: path}
	p.errno, _ = errors.AsType[syscall.Errno](err)
	var caller [1]uintptr
	runtime.Callers(3, caller[:]) // leaves out Callers, problemOf and the function that calls it
	p.caller = caller[0]
	return p
}

// isNew reports whether a problem was not logged in the last minute.
func (l *logger) isNew(p problem) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if p == l.last && time.Since(l.at) < time.Minute {
		return false
	}
	l.last, l.at = p, time.Now()
	return true
}

// Infof logs what Pebble does.
func (l *logger) Infof(format string, args ...any) {
	if l.log.Enabled(context.Background(), slog.LevelDebug) {
		l.log.Debug(fmt.Sprintf(format, args...))
	}
}

// Errorf logs an error after which Pebble continues.
func (l *logger) Errorf(format string, args ...any) {
	var cause error
	for _, a := range args {
		if err, ok := a.(error); ok {
			cause = err
		}
	}
	if l.isNew(problemOf("", cause)) {
		l.log.Warn(oneLine(format, args...))
	}
}

// Fatalf is called where Pebble wants the process to end. The process continues: reads continue, and nothing more is
// written.
func (l *logger) Fatalf(format string, args ...any) {
	text := oneLine(format, args...)
	l.log.Error(text)
	if l.fatal != nil {
		l.fatal(errors.New(text))
	}
}

// oneLine returns the first line of what Pebble reports. The other lines show where in Pebble's code it happened, which is
// of no use to an operator.
func oneLine(format string, args ...any) string {
	text, _, _ := strings.Cut(fmt.Sprintf(format, args...), "\n")
	return text
}
