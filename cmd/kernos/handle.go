package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"kernos/cmd/kernos/connect"
	"kernos/cmd/kernos/exit"
	"kernos/cmd/kernos/handling"
	"kernos/internal/backoff"
	"kernos/internal/quantity"
	"kernos/internal/visible"
	"kernos/message"
	"kernos/transport/unix"
)

// defaultHandleTime is how long a program may take, unless --timeout says otherwise. It is the
// time that the kernel gives a call.
const defaultHandleTime = 30 * time.Second

// A handlerDefinition is what Syscall.Register takes, and what a file of --definition has.
type handlerDefinition struct {
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

func handleCommand() *cobra.Command {
	var file, kind, summary, input, output string
	var timeout time.Duration
	var parallel int
	c := &cobra.Command{
		Use:   "handle TYPE [flags] -- COMMAND [ARGUMENT …]",
		Short: "Serve a syscall with a plain program",
		Long: `Serve a syscall with a program, until interrupted. For each request the command is run
once: the data of the request is on its standard input as one line of JSON, and the JSON
that it prints is the reply.

A value {"kind":"event","type":TYPE,"data":…} that it prints before the reply is an event,
and is sent at once; Syscall.Progressed with {"message":…,"percentage":0.5} shows progress.
A status other than 0 is an error: {"code":422,"message":…} on standard output says which,
otherwise it is a 500 with the end of standard error, which is shown here too. A process
that takes longer than --timeout is killed with all that it started.

The variables KERNOS_REQUEST_TYPE, KERNOS_REQUEST_ID and KERNOS_REQUEST_CORRELATION name the
request. When the daemon restarts, the syscall is registered again. An interrupt lets
running processes finish; a second one kills them.`,
		Example: `  kernos handle Text.Upper --kind query --summary 'Write a text in capitals.' -- jq '.text |= ascii_upcase'
  kernos handle Image.Resize --definition resize.json --parallel 2 -- python3 resize.py
  kernos handle Note.Add --input '{"type":"object","required":["text"]}' -- ./add.sh`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) < 2 || c.ArgsLenAtDash() != 1 {
				return errors.New("say which syscall and which program: kernos handle TYPE -- COMMAND [ARGUMENT …]")
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			def, err := readDefinition(file)
			if err != nil {
				return err
			}
			if def.Name != "" && def.Name != args[0] {
				return fmt.Errorf("--definition %s is for %s, not for %s", file, def.Name, args[0])
			}
			def.Name = args[0]
			changed := c.Flags().Changed
			if changed("kind") || def.Kind == "" {
				def.Kind = kind
			}
			if changed("summary") || def.Description == "" {
				def.Description = summary
			}
			if def.Description == "" {
				def.Description = "Served by " + args[1] + "."
			}
			if changed("timeout") || def.Timeout == 0 {
				def.Timeout = timeout.Milliseconds()
			}
			if def.InputSchema, err = readSchemaFlag("--input", input, def.InputSchema); err != nil {
				return err
			}
			if def.OutputSchema, err = readSchemaFlag("--output", output, def.OutputSchema); err != nil {
				return err
			}
			if parallel < 1 {
				return fmt.Errorf("--parallel must be at least 1, got %d", parallel)
			}
			if _, err := exec.LookPath(args[1]); err != nil {
				return fmt.Errorf("the program can't be run: %w", err)
			}
			return handle(c, def, args[1:], parallel)
		},
	}
	f := c.Flags()
	f.StringVar(&file, "definition", "", "a `FILE` with what Syscall.Register takes, as JSON; the flags below are stronger")
	f.StringVar(&kind, "kind", "command", "the `KIND`: query if it changes nothing, otherwise command")
	f.StringVar(&summary, "summary", "", "one `SENTENCE` that says what it does; callers choose by it")
	f.StringVar(&input, "input", "", "the `SCHEMA` of the request's data: JSON Schema, or @FILE")
	f.StringVar(&output, "output", "", "the `SCHEMA` of the reply's data: JSON Schema, or @FILE")
	f.IntVar(&parallel, "parallel", runtime.NumCPU(), "how `MANY` processes may run at once; further requests wait")
	timeout = defaultHandleTime
	f.Var((*quantity.PositiveDuration)(&timeout), "timeout", "how long a request may take")
	return c
}

// readDefinition reads the file of --definition.
func readDefinition(file string) (def handlerDefinition, err error) {
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

// readSchemaFlag returns the schema of a flag: JSON, or @FILE. A flag that wasn't given leaves
// the schema of the definition, and without that every value is allowed.
func readSchemaFlag(flag, text string, defined json.RawMessage) (json.RawMessage, error) {
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

// handle serves until the first interrupt, and then finishes what runs. The second one kills it.
func handle(c *cobra.Command, def handlerDefinition, command []string, parallel int) error {
	d, err := connect.FindDaemon()
	if err != nil {
		return err
	}
	data, err := json.Marshal(def)
	if err != nil {
		return err
	}
	ctx, kill := context.WithCancel(c.Context())
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
	people := &together{w: c.ErrOrStderr()}
	h := &handling.Handler{
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
// if it isn't running, later it waits for one, so that kernos stop isn't undone.
func connectAgain(d *connect.Daemon) func(context.Context) (*unix.Conn, error) {
	connected := false
	return func(ctx context.Context) (*unix.Conn, error) {
		if !connected {
			conn, err := d.ConnectOrStart(ctx)
			connected = err == nil
			return conn, err
		}
		pauses := backoff.Backoff{First: 20 * time.Millisecond, Longest: time.Second}
		for {
			conn, err := d.Connect(ctx)
			if conn != nil || err != nil && ctx.Err() != nil {
				return conn, err
			}
			if !pauses.Wait(ctx.Done()) {
				return nil, ctx.Err()
			}
		}
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
