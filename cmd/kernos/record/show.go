package record

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"kernos/cmd/kernos/terminal"
	"kernos/internal/exit"
	"kernos/internal/visible"
	"kernos/message"
	"kernos/message/mark"
)

// explained is a message with what it belongs to, as Show writes it for programs.
type explained struct {
	Message json.RawMessage   `json:"message"`
	Record  record            `json:"record"`
	Cause   json.RawMessage   `json:"cause,omitempty"`   // the message that caused it, if the journal has it
	Effects []json.RawMessage `json:"effects,omitempty"` // messages that this one caused, the oldest first
}

// maxEffects is how many effects of a message are shown.
const maxEffects = 1000

// Show shows one message, by its id or the short form of it, with its cause and its effects.
func (l *Listing) Show(ctx context.Context, id string) error {
	reply, found, err := l.page(ctx, &pageRequest{Filter: Filter{ID: id}, Limit: maxEffects, Records: true, Around: true})
	if err != nil {
		return err
	}
	if len(found) == 0 {
		reply.Dropped.note(l.screen)
		return &exit.Error{Status: exit.Failure, Cause: message.Errorf(404, "no message in the journal has the id %s; kernos log lists messages with their ids", visible.Text(id))}
	}
	m, cause, effects := &found[0], []shown(nil), found[1:]
	m.read()
	if len(effects) > 0 {
		if effects[0].read(); effects[0].wholeID == m.causation {
			cause, effects = effects[:1], effects[1:]
		}
	}
	if l.print != nil {
		return l.printOne(m, cause, effects)
	}
	if err := l.describe(m); err != nil {
		return err
	}
	types := max(typeWidth(cause), typeWidth(effects))
	for _, part := range []struct {
		title    string
		messages []shown
	}{{"Caused by", cause}, {"Effects", effects}} {
		if len(part.messages) == 0 {
			continue
		}
		if err := l.screen.Line("\n" + part.title + ":"); err != nil {
			return err
		}
		for i := range part.messages {
			if err := row(l.screen, &part.messages[i], "", types, nil); err != nil {
				return err
			}
		}
	}
	if m.causation != "" && len(cause) == 0 {
		l.screen.Note("its cause, %s, isn't in the journal", visible.Text(m.causation))
	}
	if reply.Cursor != "" {
		l.screen.Note("it has more effects; kernos log --causation %s -n 0 lists them all", visible.Text(m.wholeID))
	}
	return nil
}

func (l *Listing) printOne(m *shown, cause, effects []shown) error {
	one := explained{Message: m.Message, Record: m.record}
	if len(cause) > 0 {
		one.Cause = cause[0].Message
	}
	for i := range effects {
		one.Effects = append(one.Effects, effects[i].Message)
	}
	text, err := json.Marshal(one)
	if err != nil {
		return exit.Wrap(err)
	}
	return l.print(text)
}

// describe writes what is known about a message, and its data.
func (l *Listing) describe(m *shown) error {
	s := l.screen
	var parts struct {
		Data     json.RawMessage
		Metadata struct {
			Timestamp                                             int64
			Correlation, Causation, IdempotencyKey, SchemaVersion string
		}
	}
	if err := json.Unmarshal(m.Message, &parts); err != nil {
		return exit.Wrap(err)
	}
	k := mark.Of[m.kind]
	title := s.Paint(terminal.Style(k.Terminal), k.Sign) + " " + m.typ + " " + string(m.kind)
	if m.Claim {
		title = s.Paint(terminal.Red, mark.Claim) + " " + m.typ + " claimed " + string(m.kind)
	}
	sender := m.Principal
	if m.Wire != "" {
		sender += " over " + m.Wire
	}
	var b strings.Builder
	b.WriteString(title + "\n")
	for _, row := range [][2]string{
		{"id", m.wholeID},
		{"recorded", clock(s, m.At)},
		{"sent", clock(s, parts.Metadata.Timestamp)},
		{"caller", sender},
		{"correlation", parts.Metadata.Correlation},
		{"causation", parts.Metadata.Causation},
		{"key", parts.Metadata.IdempotencyKey},
		{"version", parts.Metadata.SchemaVersion},
	} {
		if row[1] != "" {
			b.WriteString("  " + s.Paint(terminal.Faint, terminal.Pad(row[0], 12)) + visible.Text(row[1]) + "\n")
		}
	}
	b.WriteString("\n" + s.Pretty(parts.Data) + "\n")
	return s.Write(b.String())
}

// Recent is a message that can be named: its id, its workflow, and what it is.
type Recent struct{ ID, Correlation, About string }

// Recent returns the latest messages, newest first, for the completion of ids.
func (l *Listing) Recent(ctx context.Context, count int) (all []Recent, err error) {
	_, messages, err := l.page(ctx, &pageRequest{Order: "desc", Limit: count, Records: true})
	if err != nil {
		return nil, err
	}
	for i := range messages {
		m := &messages[i]
		m.read()
		about := time.UnixMilli(m.At).In(l.screen.Now.Location()).Format("15:04:05") + " " + string(m.kind) + " " + m.typ
		all = append(all, Recent{m.wholeID, m.correlation, about})
	}
	return all, nil
}
