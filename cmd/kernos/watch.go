package main

import (
	"context"
	"encoding/json"

	"github.com/spf13/cobra"

	"kernos/cmd/kernos/exit"
	"kernos/cmd/kernos/terminal"
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
			return asking(c, open, func(ctx context.Context, call caller, s *terminal.Screen) error {
				r := watchRequest{filterFlags: filter, Limit: count}
				if c.Flags().Changed("from") {
					r.From = &from
				}
				return newListing(call, s, filter, asJSON).watch(ctx, r)
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

// watch shows messages as they come. Requests of its own that are among them are not shown,
// and don't count.
func (l *listing) watch(ctx context.Context, r watchRequest) error {
	hidden, shown := 0, 0
	data, err := l.stream(ctx, "Message.Watch", r, func(own bool) (enough bool) {
		if own {
			hidden++
		}
		return false
	})
	var reply struct {
		Next     uint64
		Messages int
	}
	if err != nil || r.Limit == 0 || hidden == 0 || json.Unmarshal(data, &reply) != nil || reply.Messages < r.Limit {
		return err
	}
	// The kernel has counted them, so there is more to come; how many of its own requests
	// this one meets, nobody knows.
	r.After, r.From, r.Limit = nil, &reply.Next, 0
	_, err = l.stream(ctx, "Message.Watch", r, func(own bool) (enough bool) {
		if !own {
			shown++
		}
		return shown == hidden
	})
	return err
}

// stream asks for something that sends messages, and shows them, without those that it has
// sent itself. It returns the data of the reply. Seen is told of each message whether it was
// sent here, and may end the stream; then the data is nil.
func (l *listing) stream(ctx context.Context, t message.Type, input any, seen func(own bool) (enough bool)) (json.RawMessage, error) {
	// Output that can't be written ends the call: nobody reads it any more.
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var broken error
	over := false
	types := minTypeWidth + 6
	data, err := ask(ctx, l.call, message.KindQuery, t, input, func(event message.Message) {
		var m shown
		if broken != nil || over || event.Type != "Message.Recorded" && event.Type != "Message.Replayed" {
			return
		}
		if text, err := fetched(event.Data); err == nil {
			event.Data = text
		}
		if broken = json.Unmarshal(event.Data, &m); broken == nil {
			own := l.own.has(m.Message)
			if !own {
				broken = l.display(&m, types)
			}
			over = seen != nil && seen(own)
		}
		if broken != nil || over {
			cancel()
		}
	})
	if broken != nil {
		return nil, exit.Wrap(broken)
	}
	if over {
		return nil, nil
	}
	return data, err
}

// display shows a message that has come.
func (l *listing) display(m *shown, types int) error {
	if l.asJSON {
		return l.screen.Line(string(m.Message))
	}
	m.read()
	return row(l.screen, m, "", types, nil)
}
