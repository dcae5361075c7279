package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"kernos/cmd/kernos/exit"
	"kernos/cmd/kernos/terminal"
	"kernos/message"
)

// historyCommands are the commands that show what is in the journal, and the one that may
// add to it.
func historyCommands(open, openRecorded opener) []*cobra.Command {
	return []*cobra.Command{logCommand(open), graphCommand(open), searchCommand(open), replayCommand(open, openRecorded), watchCommand(open)}
}

// maxTable is how many messages a table shows; more are written as they are read.
const maxTable = 10_000

func logCommand(open opener) *cobra.Command {
	var filter filterFlags
	var count int
	var asJSON, follow bool
	c := &cobra.Command{
		Use:   "log",
		Short: "Show recorded messages",
		Long: `Show the latest messages that the journal has, the oldest of them first. Each is one
line: when it was recorded, its kind (▶ command, ? query, ◆ event, ✓ reply, ✗ error),
its type, its id and what it says, cut to the width of the terminal.

--json prints the messages themselves, one a line, as they were recorded.`,
		Example: `  kernos log                                   the latest 50
  kernos log --type 'Memory.*' --since 1h
  kernos log --kind error -n 10
  kernos log --correlation req-7 --json | jq .data
  kernos log -n 0 --json > everything.ndjson   all there is
  kernos log --follow                          and go on with what comes`,
		Args: noArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			if count < 0 || count > maxTable {
				return fmt.Errorf("-n must be from 1 to %d, or 0 for all; got %d", maxTable, count)
			}
			return asking(c, open, func(ctx context.Context, call caller, s *terminal.Screen) error {
				return newListing(call, s, filter, asJSON).run(ctx, count, follow)
			})
		},
	}
	filter.add(c)
	c.Flags().IntVarP(&count, "count", "n", 50, "how many messages; 0 for all")
	c.Flags().BoolVar(&asJSON, "json", false, "print the messages themselves, one a line")
	c.Flags().BoolVarP(&follow, "follow", "f", false, "go on with what is recorded from now on, until interrupted")
	return c
}

// listing is one run of a command that shows recorded messages.
type listing struct {
	call   caller
	own    ownRequests
	screen *terminal.Screen
	filter filterFlags
	asJSON bool
}

func newListing(call caller, s *terminal.Screen, filter filterFlags, asJSON bool) *listing {
	own := make(ownRequests)
	return &listing{call: own.noting(call), own: own, screen: s, filter: filter, asJSON: asJSON}
}

// listRequest is the input of Message.List.
type listRequest struct {
	filterFlags
	Cursor  string `json:"cursor,omitempty"`
	Limit   int    `json:"limit,omitempty"`
	Order   string `json:"order,omitempty"`
	Records bool   `json:"records"`
}

// listReply is its output.
type listReply struct {
	Messages []json.RawMessage
	Records  []struct {
		Seq uint64
		At  int64
	}
	Cursor  string
	Dropped *gap
}

// gap is what a reply says about messages that are not in the journal.
type gap struct {
	Messages, Lost              uint64
	Until, LostSince, LostUntil int64
}

func (g *gap) tell(s *terminal.Screen) {
	if g == nil {
		return
	}
	clock := func(ms int64) string { return time.UnixMilli(ms).In(s.Now.Location()).Format("2006-01-02 15:04:05") }
	if g.Messages > 0 {
		s.Note("the journal has dropped its oldest %s, recorded until %s", terminal.Count(int(g.Messages), "message", "messages"), clock(g.Until))
	}
	if g.Lost > 0 {
		s.Note("%s from %s to %s could not be recorded because the store did not take them", terminal.Count(int(g.Lost), "message", "messages"), clock(g.LostSince), clock(g.LostUntil))
	}
}

// page is how many messages are asked for at once.
const page = 500

// page asks for a page. If the answer can't be given because it is too long, it asks for fewer
// messages, and lowers the request's limit for the pages that follow.
func (l *listing) page(ctx context.Context, r *listRequest) (*listReply, []shown, error) {
	data, err := ask(ctx, l.call, message.KindQuery, "Message.List", r, nil)
	for unfit(err) && r.Limit > 1 {
		r.Limit /= 2
		data, err = ask(ctx, l.call, message.KindQuery, "Message.List", r, nil)
	}
	if err != nil {
		return nil, nil, err
	}
	reply := new(listReply)
	if err := json.Unmarshal(data, reply); err != nil {
		return nil, nil, &exit.Error{Status: exit.Failure, Cause: fmt.Errorf("the answer of Message.List can't be read: %w", err)}
	}
	messages := make([]shown, len(reply.Messages))
	for i, text := range reply.Messages {
		messages[i].Message = text
		if i < len(reply.Records) {
			messages[i].Seq, messages[i].At = reply.Records[i].Seq, reply.Records[i].At
		}
		if !l.asJSON {
			messages[i].read()
		}
	}
	return reply, messages, nil
}

func (l *listing) run(ctx context.Context, count int, follow bool) error {
	last, any, err := uint64(0), false, error(nil)
	if count == 0 {
		last, any, err = l.all(ctx)
	} else {
		last, any, err = l.latest(ctx, count)
	}
	switch {
	case err != nil:
		return err
	case follow:
		return l.watch(ctx, watchRequest{filterFlags: l.filter, After: &last})
	case !any:
		noMessages(l.screen)
	}
	return nil
}

// all shows everything that is there at the moment, a page at a time. What is asked for that
// is recorded behind it.
func (l *listing) all(ctx context.Context) (last uint64, any bool, err error) {
	if last, err = l.newest(ctx); err != nil {
		return 0, false, err
	}
	r := listRequest{filterFlags: l.filter, Limit: page, Records: true}
	for {
		reply, messages, err := l.page(ctx, &r)
		if err != nil {
			return 0, false, err
		}
		if r.Cursor == "" {
			reply.Dropped.tell(l.screen)
		}
		asked := len(messages)
		messages = slices.DeleteFunc(messages, func(m shown) bool { return m.Seq > last })
		if err := l.show(messages); err != nil {
			return 0, false, err
		}
		any = any || len(messages) > 0
		if r.Cursor = reply.Cursor; r.Cursor == "" || len(messages) < asked {
			return last, any, nil
		}
	}
}

// newest returns the number of the last message that is recorded, before what asks for it.
func (l *listing) newest(ctx context.Context) (uint64, error) {
	for r := (listRequest{Order: "desc", Limit: 2, Records: true}); ; {
		reply, messages, err := l.page(ctx, &r)
		if err != nil {
			return 0, err
		}
		for i := range messages {
			if !l.own.has(messages[i].Message) {
				return messages[i].Seq, nil
			}
		}
		if r.Cursor = reply.Cursor; r.Cursor == "" {
			return 0, nil
		}
	}
}

// latest shows the newest messages in the order in which they came.
func (l *listing) latest(ctx context.Context, count int) (last uint64, any bool, err error) {
	r := listRequest{filterFlags: l.filter, Order: "desc", Limit: page, Records: true}
	var newest []shown
	for {
		r.Limit = min(count-len(newest)+1, r.Limit) // one is likely to be the request itself
		var reply *listReply
		var messages []shown
		if reply, messages, err = l.page(ctx, &r); unfit(err) {
			break // one message is too long for a line
		}
		if err != nil {
			return 0, false, err
		}
		newest = append(newest, slices.DeleteFunc(messages, func(m shown) bool { return l.own.has(m.Message) })...)
		r.Cursor = reply.Cursor
		if r.Cursor == "" { // the list went back to the beginning
			reply.Dropped.tell(l.screen)
		}
		if r.Cursor == "" || len(newest) >= count {
			break
		}
	}
	newest = newest[:min(len(newest), count)]
	if len(newest) > 0 {
		last = newest[0].Seq
	}
	slices.Reverse(newest)
	return last, len(newest) > 0, errors.Join(l.show(newest), err)
}

// show shows messages as a table, or as they are.
func (l *listing) show(messages []shown) error {
	types := typeWidth(messages)
	for i := range messages {
		var err error
		if l.asJSON {
			err = l.screen.Line(string(messages[i].Message))
		} else {
			err = row(l.screen, &messages[i], "", types, nil)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
