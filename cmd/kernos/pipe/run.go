package pipe

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"kernos/cmd/kernos/server"
	"kernos/internal/exit"
	"kernos/internal/visible"
	"kernos/message"
)

// Handle serves until the first interrupt, and then finishes what runs. The second one kills it.
func Handle(ctx context.Context, s *server.Server, def Definition, command []string, parallel int, stderr io.Writer) error {
	data, err := json.Marshal(def)
	if err != nil {
		return err
	}
	ctx, kill := context.WithCancel(ctx)
	defer kill()
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(signals)
	drain, over := make(chan struct{}), make(chan struct{})
	defer close(over)
	go func() {
		for _, act := range []func(){func() { close(drain) }, kill} {
			select {
			case <-signals:
				act()
			case <-over:
				return
			}
		}
	}()
	people := &together{w: stderr}
	h := &handler{
		Type: message.Type(def.Name), Registration: data, Command: command, Parallel: parallel,
		Timeout: time.Duration(def.Timeout) * time.Millisecond, Stderr: people,
		Report:  func(text string) { fmt.Fprintln(people, "kernos: "+visible.Text(text)) },
		Connect: connectAgain(s),
	}
	err = h.serve(ctx, drain)
	if err != nil && ctx.Err() != nil {
		return &exit.Error{Status: exit.Interrupted}
	}
	if e, ok := errors.AsType[*message.Error](err); ok {
		return &exit.Error{Status: exit.StatusOf(e.Code), Cause: err}
	}
	return exit.Wrap(err)
}

// connectAgain returns the function that connects a handler: the first time it starts the daemon of this user
// if it isn't running, later it doesn't, so that kernos stop isn't undone. What keeps a later daemon from being
// reached may pass, but not that a server elsewhere no longer accepts the token.
func connectAgain(s *server.Server) func(context.Context) (server.Lines, error) {
	connected := false
	return func(ctx context.Context) (server.Lines, error) {
		conn, err := s.Lines(ctx, !connected)
		if e, ok := errors.AsType[*exit.Error](err); connected && err != nil && (!ok || e.Status != exit.Forbidden) {
			return nil, nil
		}
		connected = err == nil
		return conn, err
	}
}

// together is a writer for several processes, whose writes don't mix.
type together struct {
	mu sync.Mutex
	w  io.Writer
}

func (t *together) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.w.Write(b)
}
