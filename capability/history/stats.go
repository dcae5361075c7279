package history

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"kernos/journal"
	"kernos/kernel"
	"kernos/message"
)

// gap is what is not in the journal and might have been.
type gap struct {
	Messages  uint64 `json:"messages" jsonschema_description:"How many messages were dropped because of their age or of the journal's size: its oldest."`
	Until     int64  `json:"until,omitzero" jsonschema_description:"When the last of them was recorded, in milliseconds since 1970."`
	Why       string `json:"why,omitzero" jsonschema_description:"What the last ones were dropped for: age or bytes."`
	Lost      uint64 `json:"lost,omitzero" jsonschema_description:"How many messages were never recorded, because the store did not take them."`
	LostSince int64  `json:"lostSince,omitzero" jsonschema_description:"When the first of those came."`
	LostUntil int64  `json:"lostUntil,omitzero" jsonschema_description:"When the last of those came."`
}

func (gap) SchemaName() string { return "Gap" }

// gap returns what may be missing in an answer about a time, or nil.
func (r reader) gap(since, until int64) (*gap, error) {
	d, err := r.journal.Dropped()
	if err != nil {
		return nil, err
	}
	return gapOf(&d, since, until), nil
}

func gapOf(d *journal.Dropped, since, until int64) *gap {
	g := new(gap)
	if d.Messages > 0 && d.At >= since {
		g.Messages, g.Until, g.Why = d.Messages, d.At, string(d.Why)
	}
	if d.Lost > 0 && d.LostUntil >= since && (until == 0 || d.LostSince < until) {
		g.Lost, g.LostSince, g.LostUntil = d.Lost, d.LostSince, d.LostUntil
	}
	if *g == (gap{}) {
		return nil
	}
	return g
}

// String reports in words what is missing.
func (g *gap) String() string {
	clock := func(ms int64) string { return time.UnixMilli(ms).UTC().Format(time.RFC3339) }
	var parts []string
	if g.Messages > 0 {
		parts = append(parts, fmt.Sprintf("it has dropped the %d messages that were recorded until %s", g.Messages, clock(g.Until)))
	}
	if g.Lost > 0 {
		parts = append(parts, fmt.Sprintf("%d messages from %s to %s were not recorded because the store did not take them", g.Lost, clock(g.LostSince), clock(g.LostUntil)))
	}
	return strings.Join(parts, "; ")
}

// isNotFound reports whether an error means that the journal doesn't have the message.
func isNotFound(err error) bool {
	e, ok := errors.AsType[*message.Error](err)
	return ok && e.Code == 404
}

type statsInput struct{}

type statsOutput struct {
	Messages uint64 `json:"messages" jsonschema_description:"How many messages the journal has."`
	Bytes    uint64 `json:"bytes" jsonschema_description:"How many bytes they take, without indices."`
	FirstSeq uint64 `json:"firstSeq,omitzero" jsonschema_description:"The number of the oldest message."`
	FirstAt  int64  `json:"firstAt,omitzero" jsonschema_description:"When it was recorded, in milliseconds since 1970."`
	LastSeq  uint64 `json:"lastSeq,omitzero" jsonschema_description:"The number of the newest message."`
	LastAt   int64  `json:"lastAt,omitzero" jsonschema_description:"When it was recorded, in milliseconds since 1970."`
	Behind   uint64 `json:"behind" jsonschema_description:"How many of the newest messages Message.Search does not know yet."`
	Dropped  *gap   `json:"dropped,omitempty" jsonschema_description:"Messages that the journal no longer has, or never had."`
}

var stats = kernel.DefineQuery[statsInput, statsOutput](kernel.Definition{
	Type:    "Message.Stats",
	Summary: "Report how many messages the journal holds, from when to when, and what it has dropped.",
	Presentation: kernel.Presentation{
		Title: "Show what the journal holds",
		Words: "statistics, size of the journal, how many, how often, usage, how big is the journal, how many messages are recorded, oldest message, " +
			"how much is logged, size of the log, how far back does the log go, number of events",
	},
	Behavior:  kernel.Behavior{Volatile: []string{"*"}}, // the figures are about this moment
	Journaled: kernel.Journaled{Answers: kernel.FromJournal, Recording: kernel.InWorkflows},
})

func (r reader) stats(context.Context, statsInput) (out statsOutput, err error) {
	s, err := r.journal.Stats()
	if err != nil {
		return out, err
	}
	out = statsOutput{
		Messages: s.Messages, Bytes: s.Bytes,
		FirstSeq: s.FirstSeq, FirstAt: s.FirstAt,
		LastSeq: s.LastSeq, LastAt: s.LastAt,
	}
	if s.LastSeq > s.Indexed {
		out.Behind = s.LastSeq - max(s.Indexed, s.FirstSeq-1)
	}
	out.Dropped, err = r.gap(0, 0)
	return out, err
}
