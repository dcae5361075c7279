package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"kernos/client"
	"kernos/cmd/kernos/connect"
	"kernos/cmd/kernos/exit"
	"kernos/cmd/kernos/terminal"
	"kernos/daemon"
	"kernos/internal/visible"
)

func doctorCommand() *cobra.Command {
	var context, url string
	var asJSON bool
	c := &cobra.Command{
		Use:   "doctor [URL]",
		Short: "Look for what is wrong between here and a server",
		Long: `Check a server layer by layer, from the socket up to the rules of the protocol, and say
what to do about what is wrong: the home directory, the socket or the TCP address, HTTP,
the WebSocket, a call, the service hash, the schemas, the sequence of what streams say,
the store, the clock and the disk. Without a URL it is the server of the current context, which is the
daemon of this user unless you say otherwise. Any server that speaks this protocol can be
checked. Nothing is started, and nothing is changed.

The status is 0 if all is well, 1 if something is wrong, 3 if the server does not let you
in, 4 if it can't be reached.`,
		Example: `  kernos doctor
  kernos doctor ws://127.0.0.1:7420/
  kernos doctor --context office --json | jq 'map(select(.ok | not))'`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) > 1 || len(args) == 1 && context != "" {
				return fmt.Errorf("say one server: a URL, or --context NAME; see kernos doctor --help")
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 1 {
				url = args[0]
			}
			ctx, stop := signal.NotifyContext(c.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			d := &doctor{screen: terminal.NewScreen(c.OutOrStdout(), c.ErrOrStderr()), quiet: asJSON}
			var err error
			d.Server, err = connect.FindServer(context, url)
			if bad, ok := errors.AsType[*daemon.HomeError](err); ok {
				d.unreachable = true
				d.wrong("home", "set KERNOS_HOME to another directory", "%s %s", bad.Dir, bad.Reason)
			} else if err != nil {
				return err
			} else {
				d.examine(ctx)
			}
			if ctx.Err() != nil {
				return &exit.Error{Status: exit.Interrupted}
			}
			if asJSON {
				text, err := json.MarshalIndent(d.findings, "", "  ")
				if err != nil {
					return exit.Wrap(err)
				}
				if err := d.screen.Line(string(text)); err != nil {
					return err
				}
			}
			return d.verdict()
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	c.Flags().StringVar(&context, "context", "", "the server of this context")
	c.Flags().BoolVar(&asJSON, "json", false, "write the findings as JSON")
	_ = c.RegisterFlagCompletionFunc("context", completeContexts)
	return c
}

// A finding is what a check has found.
type finding struct {
	Layer  string `json:"layer"`
	OK     bool   `json:"ok"`
	Text   string `json:"text"`
	Advice string `json:"advice,omitempty"` // what to do, if there is something
}

// checkTime is how long one check may take.
const checkTime = 10 * time.Second

// A doctor examines a server.
type doctor struct {
	*connect.Server
	screen   *terminal.Screen
	quiet    bool
	findings []finding
	lost     error // of a finding that could not be shown

	conn        *client.Client
	frames      frameLog
	unreachable bool
	forbidden   bool
}

// found takes note of a finding and shows it.
func (d *doctor) found(f finding) {
	d.findings = append(d.findings, f)
	if d.quiet {
		return
	}
	mark, st := "✓", terminal.Green
	switch {
	case !f.OK:
		mark, st = "✗", terminal.Red
	case f.Advice != "":
		mark, st = "!", terminal.Yellow
	}
	text := fmt.Sprintf("%s %-10s %s", d.screen.Paint(st, mark), f.Layer, visible.Lines(f.Text))
	if f.Advice != "" {
		text += fmt.Sprintf("\n  %-10s %s %s", "", d.screen.Paint(st, "→"), visible.Lines(f.Advice))
	}
	if err := d.screen.Line(string(text)); d.lost == nil {
		d.lost = err
	}
}

func (d *doctor) well(layer, format string, args ...any) {
	d.found(finding{Layer: layer, OK: true, Text: fmt.Sprintf(format, args...)})
}

func (d *doctor) wrong(layer, advice, format string, args ...any) {
	d.found(finding{Layer: layer, Text: fmt.Sprintf(format, args...), Advice: advice})
}

// doubtful is a finding that is not wrong, and worth a look.
func (d *doctor) doubtful(layer, advice, format string, args ...any) {
	d.found(finding{Layer: layer, OK: true, Text: fmt.Sprintf(format, args...), Advice: advice})
}

// examine makes the checks from the ground up. Where one layer does not hold, those above
// it are not looked at.
func (d *doctor) examine(ctx context.Context) {
	defer func() {
		if d.conn != nil {
			_ = d.conn.Close()
		}
	}()
	d.Target.Trace = d.frames.add
	home := func(context.Context) bool { return d.checkHome() }
	layers := []func(context.Context) bool{home, d.checkPlace, d.checkHTTP, d.checkWebSocket, d.checkCall, d.checkHash, d.checkSchemas, d.checkSequences, d.checkStore}
	for _, check := range layers {
		limited, cancel := context.WithTimeout(ctx, checkTime)
		goOn := check(limited)
		cancel()
		if !goOn || ctx.Err() != nil {
			break
		}
	}
	d.checkDisk()
}

// verdict is the status that the doctor leaves with.
func (d *doctor) verdict() error {
	switch {
	case d.lost != nil:
		return d.lost
	case d.unreachable:
		return &exit.Error{Status: exit.Unreachable}
	case d.forbidden:
		return &exit.Error{Status: exit.Forbidden}
	}
	for _, f := range d.findings {
		if !f.OK {
			return &exit.Error{Status: exit.Failure}
		}
	}
	return nil
}
