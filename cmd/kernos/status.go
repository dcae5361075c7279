package main

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"kernos/capability/lifecycle"
	"kernos/cmd/kernos/doctor"
	"kernos/cmd/kernos/terminal"
	"kernos/internal/exit"
	"kernos/internal/patience"
	"kernos/internal/quantity"
	"kernos/message"
)

func statusCommand(k *kernels) *cobra.Command {
	timeout := patience.For(5 * time.Second)
	c := answers(&cobra.Command{
		Use:   "status",
		Short: "Say whether the daemon runs, and how it is doing",
		Long: `Say whether the daemon runs, since when and where, how many connections it has, how
many messages come, what is under way, how much is kept, and what is served.

--json prints what Kernel.Status replies. The status is 4 if no daemon runs, or if it does
not answer.`,
		Example: `  kernos status
  kernos status --jq .messages.perSecond`,
		Args: noArguments,
	}, "text", func(c *cobra.Command, a *answer) error {
		return exit.OnSignal(c.Context(), func(ctx context.Context) error {
			ctx, cancel := context.WithTimeout(ctx, timeout)
			defer cancel()
			call, done, err := k.running(ctx)
			if err == nil {
				a.call = call
				err = errors.Join(a.send(ctx, message.KindQuery, "Kernel.Status", struct{}{}, shows(func(status *lifecycle.Status, s *terminal.Screen) error {
					return s.Line(doctor.DescribeStatus(status))
				})), done())
			}
			return exit.Wrap(doctor.Unanswered(err, k.context, timeout))
		})
	})
	addContextFlag(c, &k.context)
	c.Flags().Var((*quantity.PositiveDuration)(&timeout), "timeout", "how long to wait for an answer: a `TIME` such as 10s")
	return c
}
