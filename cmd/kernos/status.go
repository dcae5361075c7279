package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"kernos/capability/lifecycle"
	"kernos/cmd/kernos/doctor"
	"kernos/cmd/kernos/line"
	"kernos/cmd/kernos/server"
	"kernos/cmd/kernos/terminal"
	"kernos/internal/exit"
	"kernos/internal/patience"
	"kernos/internal/quantity"
	"kernos/message"
)

func statusCommand() *cobra.Command {
	timeout := patience.For(5 * time.Second)
	c := &cobra.Command{
		Use:   "status",
		Short: "Say whether the daemon runs, and how it is doing",
		Long: `Say whether the daemon runs, since when and where, how many connections it has, how
many messages come, what is under way, how much is kept, and what is served.

--json prints what Kernel.Status replies. The status is 4 if no daemon runs, or if it does
not answer.`,
		Example: `  kernos status
  kernos status --jq .messages.perSecond`,
		Args: noArguments,
	}
	c.Flags().Var((*quantity.PositiveDuration)(&timeout), "timeout", "how long to wait for an answer: a `TIME` such as 10s")
	return views(c, server.Options{Node: true}, func(ctx context.Context, v *line.View) error {
		ctx, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()
		data, err := server.Send(ctx, v.Call, message.KindQuery, "Kernel.Status", struct{}{}, nil)
		if err != nil {
			return exit.Wrap(doctor.Unanswered(err, contextOf(c), timeout))
		}
		return v.Write(ctx, data, shows(v, "Kernel.Status", func(status *lifecycle.Status, s *terminal.Screen) error {
			return s.Line(doctor.DescribeStatus(status))
		}))
	}, "text")
}
