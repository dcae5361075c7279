// Package doctor checks a server layer by layer, from its socket up to the rules of the
// protocol, and advises what to do about what is wrong.
package doctor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"kernos/client"
	"kernos/cmd/kernos/server"
	"kernos/cmd/kernos/terminal"
	"kernos/daemon"
	"kernos/internal/exit"
	"kernos/internal/patience"
	"kernos/internal/visible"
)

// A finding is the result of a check.
type finding struct {
	Layer  string `json:"layer"`
	OK     bool   `json:"ok"`
	Text   string `json:"text"`
	Advice string `json:"advice,omitempty"` // what to do; "" if nothing needs to be done
}

// checkTime is how long one check may take.
const checkTime = 10 * time.Second

// A doctor examines a server.
type doctor struct {
	*server.Server
	screen   *terminal.Screen
	quiet    bool
	findings []finding
	lost     error // why a finding could not be shown

	conn        *client.Client
	unreachable bool
	forbidden   bool
}

// Run examines the server that the name of a context or a URL means, and prints what it finds,
// as it goes, or at the end with print, which writes JSON, unless it is nil. The error has the exit
// status of the worst finding.
func Run(ctx context.Context, contextName, url string, s *terminal.Screen, print func(json.RawMessage) error) error {
	d := &doctor{screen: s, quiet: print != nil}
	var err error
	d.Server, err = server.FindServer(contextName, url)
	if bad, ok := errors.AsType[*daemon.HomeError](err); ok {
		d.unreachable = true
		d.wrong("home", "set KERNOS_HOME to another directory", "%s %s", bad.Dir, bad.Reason)
	} else if err != nil {
		return err
	} else {
		d.examine(ctx)
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if print != nil {
		data, err := json.Marshal(d.findings)
		if err != nil {
			return exit.Wrap(err)
		}
		if err := print(data); err != nil {
			return err
		}
	}
	return d.verdict()
}

// found records a finding and shows it.
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
	if err := d.screen.Line(text); d.lost == nil {
		d.lost = err
	}
}

func (d *doctor) well(layer, format string, args ...any) {
	d.found(finding{Layer: layer, OK: true, Text: fmt.Sprintf(format, args...)})
}

func (d *doctor) wrong(layer, advice, format string, args ...any) {
	d.found(finding{Layer: layer, Text: fmt.Sprintf(format, args...), Advice: advice})
}

// unreached records why the server can't be reached. It returns false: there is nothing more to
// check.
func (d *doctor) unreached(layer, advice, format string, args ...any) bool {
	d.unreachable = true
	d.wrong(layer, advice, format, args...)
	return false
}

// doubtful records something that isn't wrong but worth a look.
func (d *doctor) doubtful(layer, advice, format string, args ...any) {
	d.found(finding{Layer: layer, OK: true, Text: fmt.Sprintf(format, args...), Advice: advice})
}

// examine makes the checks from the lowest layer up, and stops at the first that is broken.
func (d *doctor) examine(ctx context.Context) {
	defer func() {
		if d.conn != nil {
			_ = d.conn.Close()
		}
	}()
	home := func(context.Context) bool { return d.checkHome() && d.checkSettings() && d.checkTrusted() }
	layers := []func(context.Context) bool{home, d.checkPlace, d.checkCluster, d.checkHTTP, d.checkWebSocket, d.checkCall, d.checkSchemas, d.checkSequences, d.checkStore}
	for _, check := range layers {
		limited, cancel := context.WithTimeout(ctx, patience.For(checkTime))
		goOn := check(limited)
		cancel()
		if !goOn || ctx.Err() != nil {
			break
		}
	}
	d.checkDisk()
}

// verdict returns an error with the exit status for the findings, or nil.
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
