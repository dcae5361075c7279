package main

import (
	"strings"
	"testing"

	"kernos/internal/testkit"
)

// A store that another command has for a moment is waited for: by a command that reads it,
// and by a daemon that begins.
func TestAStoreThatIsInUseIsWaitedFor(t *testing.T) {
	for name, run := range map[string]func(h *house) (string, string, int){
		"by a command": func(h *house) (string, string, int) { return h.run("", "log", "--json") },
		"by a daemon":  func(h *house) (string, string, int) { return h.run(ping) },
	} {
		t.Run(name, func(t *testing.T) {
			testkit.Until(t, "a store that is released in time is waited for", func() bool { // a busy machine may be late
				h := newHouse(t)
				_, release := h.hold()
				released := make(chan error, 1)
				go func() { released <- release() }()
				got, notes, status := run(h)
				if err := <-released; err != nil {
					t.Error(err)
				}
				if status == 0 && !strings.Contains(got, `"type":"Ping"`) || status != 0 && !strings.Contains(notes, "in use") {
					t.Errorf("status %d: %s%s", status, got, notes)
				}
				return status == 0
			})
		})
	}
}
