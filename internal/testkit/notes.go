package testkit

import (
	"bytes"
	"log/slog"
	"strings"
	"sync"
)

// Notes are what was written, and may be read meanwhile: a log, a screen.
type Notes struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write implements io.Writer.
func (n *Notes) Write(p []byte) (int, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.text.Write(p)
}

// String returns what was written so far.
func (n *Notes) String() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.text.String()
}

// Logger returns a log that is kept in the notes.
func (n *Notes) Logger() *slog.Logger { return slog.New(slog.NewTextHandler(n, nil)) }

// Has reports whether all of these were written.
func (n *Notes) Has(parts ...string) bool {
	text := n.String()
	for _, p := range parts {
		if !strings.Contains(text, p) {
			return false
		}
	}
	return true
}
