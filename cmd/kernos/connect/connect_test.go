package connect

import (
	"context"
	"errors"
	"strings"
	"testing"

	"kernos/cmd/kernos/request"
	"kernos/message"
	"kernos/transport/unix"
)

// refusing is the error of a daemon that is shutting down.
var refusing = &message.Error{Code: 503, Message: "The daemon is shutting down; try again", Reason: unix.ErrStopping}

func TestWhatWasNotBegunIsAskedAgain(t *testing.T) {
	for name, c := range map[string]struct {
		err    error
		events int
		again  bool
	}{
		"it is shutting down":              {refusing, 0, true},
		"it had begun":                     {refusing, 1, false},
		"something else":                   {errors.New("lost"), 0, false},
		"it answers with an error of that": {nil, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("KERNOS_HOME", t.TempDir())
			t.Setenv("XDG_RUNTIME_DIR", t.TempDir())
			d, err := FindDaemon()
			if err != nil {
				t.Fatal(err)
			}
			closed := 0
			k := &Kernel{server: &Server{Daemon: d}, close: func() error { closed++; return nil }}
			k.opts.InProcess = func() (request.Caller, func() error, error) {
				return func(_ context.Context, m message.Message, _ func(message.Message)) (message.Message, error) {
					return m.Reply(m.Data), nil
				}, func() error { return nil }, nil
			}
			k.call = func(_ context.Context, m message.Message, event func(message.Message)) (message.Message, error) {
				for range c.events {
					event(m.Event("Test.Happened", nil))
				}
				if c.err == nil {
					return m.Fail(refusing), nil
				}
				return message.Message{}, c.err
			}
			outcome, err := k.Call(t.Context(), message.Message{Kind: message.KindQuery, Type: message.Ping, Data: []byte(`{"payload":7}`)}, nil)
			if again := closed > 0; again != c.again {
				t.Fatalf("asked again: %t, %v", again, err)
			}
			if c.again && (err != nil || string(outcome.Data) != `{"payload":7}` || !k.inProcess) {
				t.Errorf("got %s, %v", outcome.Data, err)
			}
			if err := k.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestWhatADaemonSaysBeforeItServes(t *testing.T) {
	for said, want := range map[string]string{
		"":                                    "",
		"kernos: no\n":                        "no",
		"a warning\nkernos: no:\n\n  and why": "no:\nand why",
		"panic: oh\nexit status 2\n":          "exit status 2",
	} {
		if text, ready := readStart(strings.NewReader(said)); ready || text != want {
			t.Errorf("%q: %q, %t", said, text, ready)
		}
	}
	if text, ready := readStart(strings.NewReader("a warning\n" + Ready + "\n")); !ready || text != "" {
		t.Errorf("%q, %t", text, ready)
	}
}
