package handling

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"kernos/cmd/kernos/connect"
	"kernos/cmd/kernos/exit"
	"kernos/internal/visible"
	"kernos/message"
	"kernos/transport/unix"
)

// A Definition is what Syscall.Register takes, and what a file of --definition has.
type Definition struct {
	Name         string          `json:"name"`
	Kind         string          `json:"kind"`
	Description  string          `json:"description"`
	InputSchema  json.RawMessage `json:"inputSchema"`
	OutputSchema json.RawMessage `json:"outputSchema"`
	Emits        json.RawMessage `json:"emits,omitempty"`
	Exclusive    bool            `json:"exclusive,omitzero"`
	Timeout      int64           `json:"timeout"`
	Handler      string          `json:"handler"`
}

// ReadDefinition reads the file of --definition.
func ReadDefinition(file string) (def Definition, err error) {
	def.Handler = "connection"
	if file == "" {
		return def, nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return def, fmt.Errorf("--definition: %w", err)
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&def); err != nil {
		return def, fmt.Errorf("--definition %s doesn't have what Syscall.Register takes (kernos describe Syscall.Register): %w", file, err)
	}
	return def, nil
}

// ReadSchema returns the schema of a flag: JSON, or @FILE. A flag that wasn't given leaves
// the schema of the definition, and without that every value is allowed.
func ReadSchema(flag, text string, defined json.RawMessage) (json.RawMessage, error) {
	if text == "" {
		if defined == nil {
			return json.RawMessage("{}"), nil
		}
		return defined, nil
	}
	if file, ok := strings.CutPrefix(text, "@"); ok {
		read, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", flag, err)
		}
		text = string(read)
	}
	if !json.Valid([]byte(text)) {
		return nil, fmt.Errorf("%s: expected JSON Schema, or @FILE, got %q", flag, message.Clip(text, 60))
	}
	return json.RawMessage(text), nil
}

// Run serves until the first interrupt, and then finishes what runs. The second one kills it.
func Run(ctx context.Context, def Definition, command []string, parallel int, stderr io.Writer) error {
	d, err := connect.FindDaemon()
	if err != nil {
		return err
	}
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
		Connect: connectAgain(d),
	}
	err = h.Serve(ctx, drain)
	if err != nil && ctx.Err() != nil {
		return &exit.Error{Status: exit.Interrupted}
	}
	if e, ok := errors.AsType[*message.Error](err); ok {
		return &exit.Error{Status: exit.StatusOf(e.Code), Cause: err}
	}
	return exit.Wrap(err)
}

// connectAgain returns the function that connects a handler: the first time it starts the daemon
// if it isn't running, later it doesn't, so that kernos stop isn't undone. What keeps a later daemon from being
// reached may pass.
func connectAgain(d *connect.Daemon) func(context.Context) (*unix.Conn, error) {
	find := d.ConnectOrStart
	return func(ctx context.Context) (*unix.Conn, error) {
		conn, err := find(ctx)
		if err == nil {
			find = func(ctx context.Context) (*unix.Conn, error) {
				conn, _ := d.Connect(ctx)
				return conn, nil
			}
		}
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
