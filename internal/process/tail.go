package process

import (
	"strings"
	"sync"
)

// A Tail keeps the last bytes of what a program prints to standard error, so that an error can repeat them.
type Tail struct {
	Max int // how many bytes it keeps

	mu   sync.Mutex
	text []byte
}

// Write implements [io.Writer].
func (t *Tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, b...)
	if over := len(t.text) - t.Max; over > 0 {
		t.text = append(t.text[:0], t.text[over:]...)
	}
	return len(b), nil
}

// String returns what was kept so that it can follow a sentence: after a colon, or nothing.
func (t *Tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	text := strings.TrimSpace(strings.ToValidUTF8(string(t.text), "�"))
	if text == "" {
		return ""
	}
	return ": " + text
}
