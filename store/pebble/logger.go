package pebble

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"
)

// A logger takes what Pebble has to say.
type logger struct {
	log   *slog.Logger
	fatal func(error) // nil while nothing is written

	mu   sync.Mutex
	last string // the last text that was logged
	at   time.Time
}

// isNew reports whether a text has not just been said. What Pebble tries again and
// again fails again and again.
func (l *logger) isNew(text string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if text == l.last && time.Since(l.at) < time.Minute {
		return false
	}
	l.last, l.at = text, time.Now()
	return true
}

// Infof tells of Pebble's daily work.
func (l *logger) Infof(format string, args ...any) {
	if l.log.Enabled(context.Background(), slog.LevelDebug) {
		l.log.Debug(fmt.Sprintf(format, args...))
	}
}

// Errorf logs an error after which Pebble continues.
func (l *logger) Errorf(format string, args ...any) {
	if text := oneLine(format, args...); l.isNew(text) {
		l.log.Warn(text)
	}
}

// Fatalf is where Pebble wants the process to end. It does not: reads continue, and
// nothing more is written.
func (l *logger) Fatalf(format string, args ...any) {
	text := oneLine(format, args...)
	l.log.Error(text)
	if l.fatal != nil && format != missingFile {
		l.fatal(fmt.Errorf("%s", text))
	}
}

// missingFile is the format with which Pebble reports a table that was removed by another program. The read
// fails by itself, and the others need not. The error alone doesn't tell: a manifest whose directory is gone is
// also fs.ErrNotExist, and ends all writing.
const missingFile = "%+v"

// oneLine is what an operator can do something with: the first line of what Pebble
// says. Behind it, it shows where in its code it was.
func oneLine(format string, args ...any) string {
	text, _, _ := strings.Cut(fmt.Sprintf(format, args...), "\n")
	return text
}
