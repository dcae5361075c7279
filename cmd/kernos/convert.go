package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"kernos/cmd/kernos/pipe"
	"kernos/message"
	"kernos/message/osevent"
)

func convertCommand() *cobra.Command {
	var to string
	c := &cobra.Command{
		Use:   "convert --to 0.1|0.3",
		Short: "Translate a stream of messages between the two dialects",
		Long: `Read messages in either dialect from standard input and write them in the chosen one.
0.3 is what kernos speaks (kind, type, data); 0.1 is the older one (type, name, payload).
Messages that are in it already pass as they are.

A line that isn't a message, or that does not fit into a line of the other dialect, is
reported on standard error and left out. An error that says what only the older dialect
can say (a code of one's own, details, a stack) is translated without it, and each loss is
reported with the number of its line. If anything was reported, the status is 1.`,
		Example: `  kernos convert --to 0.3 < old.ndjson > new.ndjson`,
		Args:    noArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			dialect := message.Current
			switch to {
			case message.Current.Version:
			case osevent.Dialect.Version:
				dialect = osevent.Dialect
			case "":
				return errors.New("name the dialect to translate to: --to 0.1 or --to 0.3")
			default:
				return fmt.Errorf("there is no dialect %q: --to takes 0.1 or 0.3", to)
			}
			return pipe.Convert(c.InOrStdin(), c.OutOrStdout(), c.ErrOrStderr(), dialect)
		},
	}
	c.Flags().StringVar(&to, "to", "", "the `DIALECT` to write: 0.1 or 0.3")
	return c
}
