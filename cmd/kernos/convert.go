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
		Use:   "convert --to 0.1|0.2|0.3",
		Short: "Translate a stream of messages between the versions of the message schema",
		Long: `Read messages of any version from standard input and write them in the chosen one.
0.3 is what kernos speaks (kind, type, data); 0.1 is the older one (type, name, payload). 0.2 has
the names of 0.1 and the errors of 0.3; its messages have schemaVersion 0.2 in their metadata.
Messages that are in it already pass as they are.

A line that isn't a message, or that does not fit into a line of the chosen version, is
reported on standard error and left out. An error that says what only version 0.1
can say (a code of one's own, details, a stack) is translated without it, and each loss is
reported with the number of its line. If anything was reported, the status is 1.`,
		Example: `  kernos convert --to 0.3 < old.ndjson > new.ndjson`,
		Args:    noArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			for _, dialect := range []*message.Dialect{osevent.Dialect, osevent.Numbered, message.Current} {
				if dialect.Version == to {
					return pipe.Convert(c.InOrStdin(), c.OutOrStdout(), c.ErrOrStderr(), dialect)
				}
			}
			if to == "" {
				return errors.New("name the version to translate to: --to 0.1, --to 0.2 or --to 0.3")
			}
			return fmt.Errorf("unknown version %q: --to takes 0.1, 0.2 or 0.3", to)
		},
	}
	c.Flags().StringVar(&to, "to", "", "the `VERSION` to write: 0.1, 0.2 or 0.3")
	return c
}
