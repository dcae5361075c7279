package main

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"

	"kernos/cmd/kernos/exit"
	"kernos/cmd/kernos/terminal"
	"kernos/internal/visible"
	"kernos/message"
)

func replayCommand(open, openRecorded opener) *cobra.Command {
	var execute, queries, asJSON bool
	var count int
	c := &cobra.Command{
		Use:   "replay CORRELATION",
		Short: "Show a workflow once more, or run it again",
		Long: `Show the messages of a workflow in the order in which they were recorded. The
workflow is named by the correlation of its messages, or by the id of the message that
began it.

--execute runs the commands that came from outside again, in order, as a new workflow,
and says which of them had another outcome than before. They change things, as they
did then, and are recorded. Commands with secrets can't be run again, since the journal
does not have their data, and are skipped; so are those that concern a connection or the
life of the kernel, such as Syscall.Register and Syscall.Shutdown. The status is 1 if
something came out differently.`,
		Example: `  kernos replay req-7
  kernos replay req-7 --json | jq -c '[.kind, .type]'
  kernos replay req-7 --execute
  kernos replay req-7 --execute --queries --json | jq .different`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return fmt.Errorf("say which workflow: kernos replay CORRELATION; kernos log --json shows metadata.correlation")
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			if queries && !execute {
				return fmt.Errorf("--queries needs --execute: nothing is run without it")
			}
			if execute {
				open = openRecorded
			}
			return asking(c, open, func(ctx context.Context, call caller, s *terminal.Screen) error {
				return newListing(call, s, filterFlags{}, asJSON).replay(ctx, replayRequest{args[0], execute, queries, count})
			})
		},
	}
	c.Flags().BoolVar(&execute, "execute", false, "run the workflow's commands again and compare")
	c.Flags().BoolVar(&queries, "queries", false, "run its queries again too")
	c.Flags().IntVarP(&count, "count", "n", 0, "how many messages at most")
	c.Flags().BoolVar(&asJSON, "json", false, "print the messages themselves, one a line; with --execute, the report")
	return c
}

// replayRequest is the input of Message.Replay.
type replayRequest struct {
	CorrelationID string `json:"correlationId"`
	Execute       bool   `json:"execute,omitempty"`
	Queries       bool   `json:"queries,omitempty"`
	Limit         int    `json:"limit,omitempty"`
}

// replayReport is its output with execute.
type replayReport struct {
	Correlation string
	Commands    int
	Queries     int
	Same        int
	More        bool
	Different   []struct {
		ID, Type string
		Was, Now replayOutcome
	}
	Skipped []struct{ ID, Type, Why string }
}

type replayOutcome struct {
	Kind message.Kind
	Data json.RawMessage
}

func (l *listing) replay(ctx context.Context, r replayRequest) error {
	if r.Execute {
		return l.rerun(ctx, r)
	}
	data, err := l.stream(ctx, "Message.Replay", r, nil)
	if err != nil {
		return err
	}
	var reply struct{ More bool }
	if json.Unmarshal(data, &reply) == nil && reply.More {
		l.screen.Note("the workflow goes on; -n shows more")
	}
	return nil
}

func (l *listing) rerun(ctx context.Context, r replayRequest) error {
	data, err := ask(ctx, l.call, message.KindCommand, "Message.Replay", r, nil)
	if err != nil {
		return err
	}
	var report replayReport
	if err := json.Unmarshal(data, &report); err != nil {
		return &exit.Error{Status: exit.Failure, Cause: fmt.Errorf("the answer of Message.Replay can't be read: %w", err)}
	}
	if l.asJSON {
		err = l.screen.Line(string(data))
	} else {
		err = l.report(&report)
	}
	if err == nil && len(report.Different) > 0 {
		return &exit.Error{Status: exit.Failure}
	}
	return err
}

func (l *listing) report(r *replayReport) error {
	s := l.screen
	ran := terminal.Count(r.Commands, "command", "commands")
	if r.Queries > 0 {
		ran += " and " + terminal.Count(r.Queries, "query", "queries")
	}
	if err := s.Line(fmt.Sprintf("Ran %s again as %s: %d the same, %d different, %d skipped",
		ran, visible.Text(r.Correlation), r.Same, len(r.Different), len(r.Skipped))); err != nil {
		return err
	}
	for _, d := range r.Different {
		head := s.Paint(terminal.Strong, "≠") + " " + visible.Text(d.Type) + "  " + s.Paint(terminal.Faint, visible.Text(d.ID))
		if err := s.Line(head); err != nil {
			return err
		}
		for _, o := range []struct {
			word string
			replayOutcome
		}{{"was", d.Was}, {"now", d.Now}} {
			if err := s.Line("  " + o.word + "  " + outcome(s, o.replayOutcome)); err != nil {
				return err
			}
		}
	}
	for _, k := range r.Skipped {
		text := fmt.Sprintf("- %s  %s  skipped: %s", visible.Text(k.Type), visible.Text(k.ID), visible.Text(k.Why))
		if err := s.Line(s.Paint(terminal.Faint, text)); err != nil {
			return err
		}
	}
	if r.More {
		s.Note("the workflow goes on; -n runs more")
	}
	return nil
}

// outcome writes how a request was answered.
func outcome(s *terminal.Screen, o replayOutcome) string {
	k, ok := kinds[o.Kind]
	if !ok {
		return s.Paint(terminal.Faint, "no answer")
	}
	text := visible.Text(string(o.Data))
	if e, err := message.ParseError(o.Data); o.Kind == message.KindError && err == nil {
		text = fmt.Sprintf("%d %s", e.Code, visible.Text(e.Error()))
	}
	if s.IsTerminal() {
		text = terminal.Clip(text, s.Width-9)
	}
	return s.Paint(k.style, k.glyph) + " " + text
}
