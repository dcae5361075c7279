package main

import (
	"context"
	"encoding/json"

	"github.com/spf13/cobra"

	"kernos/message"
)

func watchCommand(open opener) *cobra.Command {
	var filter filterFlags
	var from uint64
	var count int
	var asJSON bool
	c := &cobra.Command{
		Use:   "watch",
		Short: "Show messages as they are recorded",
		Long: `Show messages as they are recorded, from now on, until interrupted. --from begins
with an earlier message, by its number in the journal, and --since with an earlier
time; what was recorded between then and now comes first, without gap or repeat.

--json prints the messages themselves, one a line.`,
		Example: `  kernos watch
  kernos watch --kind error
  kernos watch --type 'Job.*' --json | jq -c .data
  kernos watch --since 10m
  kernos watch --from 1                        from the beginning`,
		Args: noArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			return asking(c, open, func(ctx context.Context, call caller, s *screen) error {
				l := listing{call: call, screen: s, filter: filter, asJSON: asJSON}
				r := watchRequest{filterFlags: filter, Limit: count}
				if c.Flags().Changed("from") {
					r.From = &from
				}
				return l.watch(ctx, r)
			})
		},
	}
	filter.add(c)
	c.Flags().Uint64Var(&from, "from", 0, "begin with the message with this `number`")
	c.Flags().IntVarP(&count, "count", "n", 0, "end after so many messages")
	c.Flags().BoolVar(&asJSON, "json", false, "print the messages themselves, one a line")
	return c
}

// watchRequest is the input of Message.Watch.
type watchRequest struct {
	filterFlags
	After *uint64 `json:"after,omitempty"`
	From  *uint64 `json:"from,omitempty"`
	Limit int     `json:"limit,omitempty"`
}

// watch shows messages as they come.
func (l *listing) watch(ctx context.Context, r watchRequest) error {
	_, err := l.stream(ctx, message.KindQuery, "Message.Watch", r)
	return err
}

// stream asks for something that sends messages, and shows them. It returns the data of
// the reply.
func (l *listing) stream(ctx context.Context, kind message.Kind, t message.Type, input any) (json.RawMessage, error) {
	// Output that can't be written ends the call: nobody reads it any more.
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var broken error
	types := minTypeWidth + 6
	data, err := ask(ctx, l.call, kind, t, input, func(event message.Message) {
		var m shown
		if broken != nil || event.Type != "Message.Recorded" && event.Type != "Message.Replayed" {
			return
		}
		if text, err := fetched(event.Data); err == nil {
			event.Data = text
		}
		if broken = json.Unmarshal(event.Data, &m); broken == nil {
			if l.asJSON {
				broken = l.screen.line(m.Message)
			} else {
				m.read()
				broken = l.screen.row(&m, "", types, nil)
			}
		}
		if broken != nil {
			cancel()
		}
	})
	if broken != nil {
		return nil, failed(broken)
	}
	return data, err
}
