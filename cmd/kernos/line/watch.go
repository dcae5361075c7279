package line

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"time"

	"kernos/cmd/kernos/terminal"
	"kernos/kernel"
	"kernos/message"
)

// watchEvery is how often --watch repeats a query.
const watchEvery = time.Second

// repeated runs a call, with --watch until it is interrupted: each answer is shown in the place of the one before. Where
// the output isn't a terminal, an answer is written when it differs from that.
func (c *call) repeated(ctx context.Context, run func() error) error {
	if !c.Watch || c.diverted() {
		return run()
	}
	screen := *c.screen
	place := terminal.NewRegion(&screen)
	ticker := time.NewTicker(watchEvery)
	defer ticker.Stop()
	for {
		var answer bytes.Buffer
		c.screen.Repeat(&answer)
		if err := run(); err != nil {
			if c.screen.Err == io.Writer(&answer) {
				_, _ = answer.WriteTo(screen.Err) // the notes before the error
				c.screen.Err = screen.Err
			}
			return err
		}
		if err := place.Show(answer.String()); err != nil {
			return err
		}
		c.again = true
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// mayRepeat refuses --watch for a call that isn't to be repeated.
func (c *call) mayRepeat() error {
	if !c.Watch || c.repeatable() {
		return nil
	}
	return fmt.Errorf("--watch repeats a query, and %s.%s isn't one that is known to change nothing and to end; leave --watch out", c.module, c.name)
}

// repeatable reports whether the method is a query that is known here and ends.
func (c *call) repeatable() bool {
	route, ok := builtIn(c.fullName())
	return ok && c.changesNothing() && route.Syscall.Runs != kernel.Endless
}

// changesNothing reports whether the method is a query that is known here: others may do anything.
func (c *call) changesNothing() bool {
	route, ok := builtIn(c.fullName())
	return ok && route.Syscall.Kind == message.KindQuery
}
