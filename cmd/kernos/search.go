package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"kernos/message"
)

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
			if count < 1 || count > 1000 {
				return fmt.Errorf("-n must be from 1 to 1000, got %d", count)
			}
			return asking(c, open, func(ctx context.Context, call caller, s *screen) error {
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
	Limit   int  `json:"limit,omitempty"`
	Records bool `json:"records"`
}

func search(ctx context.Context, call caller, s *screen, r searchRequest, asJSON bool) error {
	data, err := ask(ctx, call, message.KindQuery, "Message.Search", r, nil)
	if err != nil {
		return err
	}
	var reply struct {
		Messages []json.RawMessage
		Scores   []float64
		Records  []struct{ At int64 }
		Total    int
		Behind   int
	}
	if err := json.Unmarshal(data, &reply); err != nil {
		return &exitStatus{status: exitError, cause: fmt.Errorf("the answer of Message.Search can't be read: %w", err)}
	}
	if reply.Behind > 0 {
		s.note("the latest %d messages are not indexed yet and were not searched", reply.Behind)
	}
	if len(reply.Messages) == 0 {
		s.noMessages()
		return nil
	}
	messages := make([]shown, len(reply.Messages))
	for i, text := range reply.Messages {
		messages[i].Message = text
		if asJSON {
			if err := s.line(text); err != nil {
				return err
			}
			continue
		}
		messages[i].read()
		if i < len(reply.Records) {
			messages[i].At = reply.Records[i].At
		}
	}
	if !asJSON {
		words, types := searchWords(r.Query), typeWidth(messages)
		for i := range messages {
			score := 0.0
			if i < len(reply.Scores) {
				score = reply.Scores[i]
			}
			if err := s.row(&messages[i], fmt.Sprintf("%6.2f  ", score), types, words); err != nil {
				return err
			}
		}
	}
	if reply.Total > len(messages) {
		s.note("%d of %d messages that match; -n shows more", len(messages), reply.Total)
	}
	return nil
}
