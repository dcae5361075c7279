package session

import (
	"cmp"
	"time"

	"kernos/internal/when"
	"kernos/message"
)

// A Budget is what a turn may use. 0 means the default.
type Budget struct {
	Steps  int       `json:"steps,omitzero" jsonschema:"minimum=0,maximum=10000,default=100" jsonschema_description:"How often the model thinks in a turn."`
	Tokens int64     `json:"tokens,omitzero" jsonschema:"minimum=0" jsonschema_description:"How many tokens a turn reads and writes. Default: any number."`
	Cost   float64   `json:"cost,omitzero" jsonschema:"minimum=0" jsonschema_description:"How much money a turn costs, in the currency of the model's price. Default: any amount."`
	Time   when.Span `json:"time,omitzero" jsonschema_description:"How long a turn takes: milliseconds, or a text such as 5m. Default: any time."`
	Calls  int       `json:"calls,omitzero" jsonschema:"minimum=0,maximum=100000,default=1000" jsonschema_description:"How many syscalls a turn calls."`
}

// A Total is what all turns of a session may use together. 0 means any number.
type Total struct {
	Steps  int     `json:"steps,omitzero" jsonschema:"minimum=0" jsonschema_description:"How often the model thinks in the session."`
	Tokens int64   `json:"tokens,omitzero" jsonschema:"minimum=0" jsonschema_description:"How many tokens the session reads and writes."`
	Cost   float64 `json:"cost,omitzero" jsonschema:"minimum=0" jsonschema_description:"How much money the session costs, in the currency of the model's price."`
	Calls  int     `json:"calls,omitzero" jsonschema:"minimum=0" jsonschema_description:"How many syscalls the session calls."`
}

const (
	defaultSteps = 100
	defaultCalls = 1000
)

// exceeded returns which budget of the open turn, or of the session, is used up, or nil.
func (s *session) exceeded(now time.Time) *message.Error {
	b, u := s.Budget, s.turn.Used
	over := func(what string, limit any) *message.Error {
		return message.Errorf(429, "The turn has used its budget (%s: %v); Session.Continue resumes it", what, limit)
	}
	t, all := s.Total, s.usedInAll()
	overall := func(what string, limit any) *message.Error {
		return message.Errorf(429, `The session has used its total (%[1]s: %[2]v); Session.Continue {session, total: {"%[1]s": …}} resumes it with a higher one`, what, limit)
	}
	switch {
	case t.Steps > 0 && all.Steps >= t.Steps:
		return overall("steps", t.Steps)
	case t.Calls > 0 && all.Calls >= t.Calls:
		return overall("calls", t.Calls)
	case t.Tokens > 0 && all.Tokens >= t.Tokens:
		return overall("tokens", t.Tokens)
	case t.Cost > 0 && all.Cost >= t.Cost:
		return overall("cost", t.Cost)
	case u.Steps >= cmp.Or(b.Steps, defaultSteps):
		return over("steps", cmp.Or(b.Steps, defaultSteps))
	case u.Calls >= cmp.Or(b.Calls, defaultCalls):
		return over("calls", cmp.Or(b.Calls, defaultCalls))
	case b.Tokens > 0 && u.Tokens >= b.Tokens:
		return over("tokens", b.Tokens)
	case b.Cost > 0 && u.Cost >= b.Cost:
		return over("cost", b.Cost)
	case b.Time > 0 && now.UnixMilli()-s.turn.Began >= int64(b.Time):
		return over("time", b.Time.Duration())
	}
	return nil
}

// usedInAll returns what the session has used, with its open turn.
func (s *session) usedInAll() Usage {
	all := s.Used
	if s.turn != nil {
		all.add(s.turn.Used)
	}
	return all
}

// within returns the total of a child: what is left to its parent bounds it.
func (t Total) within(p *session) Total {
	u := p.usedInAll()
	t.Steps = tighter(t.Steps, left(p.Total.Steps, u.Steps, 1))
	t.Calls = tighter(t.Calls, left(p.Total.Calls, u.Calls, 1))
	t.Tokens = tighter(t.Tokens, left(p.Total.Tokens, u.Tokens, 1))
	t.Cost = tighter(t.Cost, left(p.Total.Cost, u.Cost, 1e-9))
	return t
}

// timeLeft returns what is left of the time of the open turn, at least a little; 0 if it has no limit.
func (s *session) timeLeft(now time.Time) time.Duration {
	return time.Duration(left(int64(s.Budget.Time), now.UnixMilli()-s.turn.Began, 1)) * time.Millisecond
}

type number interface{ ~int | ~int64 | ~float64 }

// left returns what is left of a limit, at least a little; 0 means no limit.
func left[N number](limit, used, least N) N {
	if limit == 0 {
		return 0
	}
	return max(limit-used, least)
}

// tighter returns the smaller of two limits. 0 means no limit.
func tighter[N number](a, b N) N {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

// within returns the budget of a child: what is left to the open turn of its parent bounds it.
func (b Budget) within(p *session, now time.Time) Budget {
	u := p.turn.Used
	b.Steps = tighter(b.Steps, left(cmp.Or(p.Budget.Steps, defaultSteps), u.Steps, 1))
	b.Calls = tighter(b.Calls, left(cmp.Or(p.Budget.Calls, defaultCalls), u.Calls, 1))
	b.Tokens = tighter(b.Tokens, left(p.Budget.Tokens, u.Tokens, 1))
	b.Cost = tighter(b.Cost, left(p.Budget.Cost, u.Cost, 1e-9))
	b.Time = tighter(b.Time, when.Span(p.timeLeft(now).Milliseconds()))
	return b
}
