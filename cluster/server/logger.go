package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
)

// A logger passes on what the server of NATS logs, and finds in it what a person has to know.
type logger struct {
	to *slog.Logger

	mu     sync.Mutex
	failed error     // the server can't start
	other  string    // where a server with another secret is
	seen   time.Time // when it was seen
	logged time.Time // when that was logged
}

// Noticef implements [natsserver.Logger].
func (l *logger) Noticef(format string, args ...any) { l.write(slog.LevelInfo, format, args) }

// Warnf implements [natsserver.Logger].
func (l *logger) Warnf(format string, args ...any) {
	text, level := fmt.Sprintf(format, args...), slog.LevelWarn
	if usual(text) {
		level = slog.LevelDebug
	}
	l.write(level, "%s", []any{text})
}

// Errorf implements [natsserver.Logger].
func (l *logger) Errorf(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if strange(text) {
		l.meet(text)
		return
	}
	level := slog.LevelError
	switch {
	case strings.HasPrefix(text, unreached): // several times per second, for as long as a server is away
		level = slog.LevelDebug
	case usual(text):
		level = slog.LevelInfo
	}
	l.to.Log(context.Background(), level, text, "from", "nats-server")
}

// usual reports whether a line is about what each start of a cluster brings: a look at the state, servers that aren't there yet, and that this one
// listens for no clients.
func usual(line string) bool {
	return slices.ContainsFunc([]string{"Metalayer blocking snapshot", "Waiting for routing", "failed to be ready for connections", unreached}, func(begins string) bool {
		return strings.HasPrefix(line, begins)
	})
}

// unreached begins a line about another server that can't be reached.
const unreached = "Error trying to connect to route"

// Fatalf implements [natsserver.Logger]. The server can't go on, and its caller has to stop it.
func (l *logger) Fatalf(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if strings.HasPrefix(text, "Error listening on port: ") && strings.Contains(text, fmt.Sprint(unlisted)) {
		return // as it should be
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.failed = errors.Join(l.failed, errors.New("the NATS server inside: "+text))
}

// Debugf implements [natsserver.Logger].
func (l *logger) Debugf(format string, args ...any) { l.write(slog.LevelDebug, format, args) }

// Tracef implements [natsserver.Logger].
func (l *logger) Tracef(format string, args ...any) { l.write(slog.LevelDebug, format, args) }

func (l *logger) write(level slog.Level, format string, args []any) {
	if ctx := context.Background(); l.to.Enabled(ctx, level) {
		l.to.Log(ctx, level, fmt.Sprintf(format, args...), "from", "nats-server")
	}
}

// failure returns why the server can't start.
func (l *logger) failure() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.failed
}

// strange reports whether a line is about a server with another secret: its certificate is signed by another authority, or
// its password is wrong.
func strange(line string) bool {
	return strings.Contains(line, "TLS route handshake error") && strings.Contains(line, "certificate") ||
		strings.Contains(line, "authentication error") && strings.Contains(line, "rid:") ||
		strings.Contains(line, "'Authorization Violation'")
}

// address finds the address of the other side in a line of the server.
var address = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(?:\[[0-9a-f:.]+\]|[0-9.]+):\d+`) })

// meet remembers that a server has another secret, and logs it once a minute.
func (l *logger) meet(line string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.other, l.seen = address().FindString(line), time.Now()
	if l.seen.Sub(l.logged) > time.Minute {
		l.logged = l.seen
		l.to.Error(stranger(l.other), "nats-server", line)
	}
}

// stranger returns what is wrong if a server with another secret was seen lately, or "".
func (l *logger) stranger() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.seen.IsZero() || time.Since(l.seen) > 10*time.Second {
		return ""
	}
	return stranger(l.other)
}

func stranger(at string) string {
	return fmt.Sprintf("the server at %s has another cluster secret than this node: copy the secret file of one node to all others", at)
}
