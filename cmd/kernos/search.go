package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"kernos/cmd/kernos/exit"
	"kernos/cmd/kernos/terminal"
	"kernos/message"
)

// maxFound is how many messages a search may find.
const maxFound = 1000

func searchCommand(open opener) *cobra.Command {
	var filter filterFlags
	var count int
	var asJSON bool
	c := &cobra.Command{
		Use:   "search WORDS…",
		Short: "Find recorded messages by the words in them",
		Long: `Find messages in the journal by the words in them, the best first. A message with
more of the words, and with rarer ones, is better; the number at the beginning of a
line says how good it is. The flags narrow the search.

--json prints the messages themselves, one a line, the best first.`,
		Example: `  kernos search timeout fetching invoice
  kernos search sealed key --kind error --since 7d
  kernos search 'order 4711' --json | jq .metadata.correlation`,
		Args: func(_ *cobra.Command, args []string) error {
			if strings.TrimSpace(strings.Join(args, " ")) == "" {
				return fmt.Errorf("say what to look for: kernos search WORDS…")
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			if count < 1 || count > maxFound {
				return fmt.Errorf("-n must be from 1 to %d, got %d", maxFound, count)
			}
			return asking(c, open, func(ctx context.Context, call caller, s *terminal.Screen) error {
				return search(ctx, call, s, searchRequest{Query: strings.Join(args, " "), filterFlags: filter, Limit: count, Records: true}, asJSON)
			})
		},
	}
	filter.add(c)
	c.Flags().IntVarP(&count, "count", "n", 20, "how many messages at most")
	c.Flags().BoolVar(&asJSON, "json", false, "print the messages themselves, one a line")
	return c
}

// searchRequest is the input of Message.Search.
type searchRequest struct {
	Query string `json:"query"`
	filterFlags
	Cursor  string `json:"cursor,omitempty"`
	Limit   int    `json:"limit,omitempty"`
	Records bool   `json:"records"`
}

// searchReply is its output.
type searchReply struct {
	Messages []json.RawMessage
	Scores   []float64
	Records  []struct{ At int64 }
	Total    int
	Behind   int
	Cursor   string
}

func search(ctx context.Context, call caller, s *terminal.Screen, r searchRequest, asJSON bool) error {
	own := make(ownRequests)
	reply, err := searchAll(ctx, own.noting(call), r)
	if err != nil {
		return err
	}
	if reply.Behind > 0 {
		s.Note("the latest %d messages are not indexed yet and were not searched", reply.Behind)
	}
	messages, scores := make([]shown, 0, len(reply.Messages)), []float64{}
	for i, text := range reply.Messages {
		if own.has(text) {
			reply.Total--
			continue
		}
		m := shown{Message: text}
		score := 0.0
		if i < len(reply.Records) {
			m.At = reply.Records[i].At
		}
		if i < len(reply.Scores) {
			score = reply.Scores[i]
		}
		messages, scores = append(messages, m), append(scores, score)
	}
	if len(messages) == 0 {
		noMessages(s)
		return nil
	}
	if err := found(s, messages, scores, searchWords(r.Query), asJSON); err != nil {
		return err
	}
	if reply.Total > len(messages) {
		s.Note("%d of %d messages that match; -n shows more", len(messages), reply.Total)
	}
	return nil
}

// searchAll asks for as many messages as the request's limit says: all at once or, if the
// answer can't be given because it is too long, some at a time.
func searchAll(ctx context.Context, call caller, r searchRequest) (*searchReply, error) {
	all, count := new(searchReply), r.Limit
	for {
		data, err := ask(ctx, call, message.KindQuery, "Message.Search", r, nil)
		if unfit(err) && r.Limit > 1 {
			r.Limit /= 2
			continue
		}
		if err != nil {
			return nil, err
		}
		var reply searchReply
		if err := json.Unmarshal(data, &reply); err != nil {
			return nil, &exit.Error{Status: exit.Failure, Cause: fmt.Errorf("the answer of Message.Search can't be read: %w", err)}
		}
		if r.Cursor == "" {
			all.Total, all.Behind = reply.Total, reply.Behind
		}
		all.Messages = append(all.Messages, reply.Messages...)
		all.Scores = append(all.Scores, reply.Scores...)
		all.Records = append(all.Records, reply.Records...)
		if r.Cursor = reply.Cursor; r.Cursor == "" || len(all.Messages) >= count {
			return all, nil
		}
		r.Limit = min(r.Limit, count-len(all.Messages))
	}
}

// found shows messages with their scores, or as they are.
func found(s *terminal.Screen, messages []shown, scores []float64, words []string, asJSON bool) error {
	for i := range messages {
		if asJSON {
			if err := s.Line(string(messages[i].Message)); err != nil {
				return err
			}
			continue
		}
		messages[i].read()
	}
	if asJSON {
		return nil
	}
	types := typeWidth(messages)
	for i := range messages {
		if err := row(s, &messages[i], fmt.Sprintf("%6.2f  ", scores[i]), types, words); err != nil {
			return err
		}
	}
	return nil
}
