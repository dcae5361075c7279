package record

import (
	"context"
	"encoding/json"
	"fmt"

	"kernos/cmd/kernos/server"
	"kernos/cmd/kernos/terminal"
	"kernos/internal/exit"
	"kernos/internal/visible"
	"kernos/message"
	"kernos/message/mark"
)

// ReplayRequest is the input of Message.Replay.
type ReplayRequest struct {
	CorrelationID string `json:"correlationId"`
	Execute       bool   `json:"execute,omitempty"`
	Queries       bool   `json:"queries,omitempty"`
	Limit         int    `json:"limit,omitempty"`
}

// replayReport is the output of Message.Replay with execute.
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

// Replay shows the messages of a workflow, or runs its requests again.
func (l *Listing) Replay(ctx context.Context, r ReplayRequest) error {
	if r.Execute {
		return l.rerun(ctx, r)
	}
	data, err := l.stream(ctx, "Message.Replay", r)
	if err != nil {
		return err
	}
	var reply struct{ More bool }
	if json.Unmarshal(data, &reply) == nil && reply.More {
		l.screen.Note("the workflow continues; -n shows more")
	}
	return nil
}

func (l *Listing) rerun(ctx context.Context, r ReplayRequest) error {
	data, err := server.Send(ctx, l.call, message.KindCommand, "Message.Replay", r, nil)
	if err != nil {
		return err
	}
	var report replayReport
	if err := server.Decode("Message.Replay", data, &report); err != nil {
		return err
	}
	if l.print != nil {
		err = l.print(data)
	} else {
		err = l.report(&report)
	}
	if err == nil && len(report.Different) > 0 {
		return &exit.Error{Status: exit.Failure}
	}
	return err
}

func (l *Listing) report(r *replayReport) error {
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
		if err := s.Line(head + "\n  was  " + outcome(s, d.Was) + "\n  now  " + outcome(s, d.Now)); err != nil {
			return err
		}
	}
	for _, k := range r.Skipped {
		text := fmt.Sprintf("- %s  %s  skipped: %s", visible.Text(k.Type), visible.Text(k.ID), visible.Text(k.Why))
		if err := s.Line(s.Paint(terminal.Faint, text)); err != nil {
			return err
		}
	}
	if r.More {
		s.Note("the workflow continues; -n runs more")
	}
	return nil
}

// outcome describes how a request was answered.
func outcome(s *terminal.Screen, o replayOutcome) string {
	k, ok := mark.Of[o.Kind]
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
	return s.Paint(terminal.Style(k.Terminal), k.Sign) + " " + text
}
