package main

import (
	"strings"
	"testing"
)

// A store that another command has for a moment is waited for: by a command that reads it,
// and by a daemon that begins.
func TestAStoreThatIsInUseIsWaitedFor(t *testing.T) {
	for name, run := range map[string]func(h *house) (string, string, int){
		"by a command": func(h *house) (string, string, int) { return h.run("", "log", "--json") },
		"by a daemon":  func(h *house) (string, string, int) { return h.run(ping) },
	} {
		t.Run(name, func(t *testing.T) {
			h := newHouse(t)
			h.env = append(h.env, waitsVariable+"=1") // as long as a busy machine takes to end the other command
			_, release := h.hold()
			released := make(chan error, 1)
			go func() { released <- release() }()
			got, notes, status := run(h)
			if status != 0 || !strings.Contains(got, `"type":"Ping"`) {
				t.Errorf("status %d: %s%s", status, got, notes)
			}
			if err := <-released; err != nil {
				t.Error(err)
			}
		})
	}
}
