package main

import (
	"context"
	"errors"
	"strings"
	"testing"

	"kernos/message"
	"kernos/transport/unix"
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

// refusing is the error of a daemon that is about to end.
var refusing = &message.Error{Code: 503, Message: "The daemon is shutting down; try again", Reason: unix.ErrStopping}

func TestWhatWasNotBegunIsAskedAgain(t *testing.T) {
	request := message.Message{Kind: message.KindQuery, Type: message.Ping}
	for name, c := range map[string]struct {
		err    error
		events int
		again  bool
	}{
		"it is about to end":               {refusing, 0, true},
		"it had begun":                     {refusing, 1, false},
		"something else":                   {errors.New("lost"), 0, false},
		"it answers with an error of that": {nil, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("KERNOS_HOME", t.TempDir())
			t.Setenv("XDG_RUNTIME_DIR", t.TempDir())
			closed := 0
			r := &retrying{done: func() error { closed++; return nil }}
			r.call = func(_ context.Context, m message.Message, event func(message.Message)) (message.Message, error) {
				for range c.events {
					event(m.Event("Test.Happened", nil))
				}
				if c.err == nil {
					return m.Fail(refusing), nil
				}
				return message.Message{}, c.err
			}
			outcome, err := r.ask(t.Context(), message.Message{Kind: request.Kind, Type: request.Type, Data: []byte(`{"payload":7}`)}, nil)
			if again := closed > 0; again != c.again {
				t.Fatalf("asked again: %t, %v", again, err)
			}
			if c.again && (err != nil || string(outcome.Data) != `{"payload":7}` || !r.inProcess) {
				t.Errorf("got %s, %v", outcome.Data, err)
			}
			if err := r.close(); err != nil {
				t.Error(err)
			}
		})
	}
}
