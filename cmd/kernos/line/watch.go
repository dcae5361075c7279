package line

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"kernos/cmd/kernos/terminal"
	"kernos/kernel"
	"kernos/message"
)

// watchEvery is how often --watch repeats a query.
const watchEvery = time.Second

// watch repeats a query until it is interrupted, and shows each answer in the place of the one
// before. Where the output isn't a terminal, an answer is written when it differs from that.
func (c *call) watch(ctx context.Context, params json.RawMessage) error {
	if !c.repeatable() {
		return fmt.Errorf("--watch repeats a query, and %s.%s isn't one that is known to change nothing; leave --watch out", c.module, c.name)
	}
	screen := *c.screen
	place := terminal.NewRegion(&screen)
	ticker := time.NewTicker(watchEvery)
	defer ticker.Stop()
	for {
		var answer bytes.Buffer
		c.screen.Out, c.screen.Now = &answer, time.Now()
		if err := c.send(ctx, params); err != nil {
			return err
		}
		if err := place.Show(answer.String()); err != nil {
			return err
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// repeatable reports whether the method is a query that is known here and answers at once: others
// may do anything.
func (c *call) repeatable() bool {
	route, ok := builtIn(c.fullName())
	return ok && route.Syscall.Kind == message.KindQuery && route.Syscall.Runs != kernel.Endless
}
