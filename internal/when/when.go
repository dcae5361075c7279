// Package when reads times and lengths of time as people and models write them: "in 8 seconds", "tomorrow 09:00",
// "2h", 2026-11-20T09:00. Parameters of syscalls and flags take the same texts.
//
// A parameter is a field of one of three types. A schema that is derived from them takes a number or a text, and
// checks both, so that what is decoded is never wrong:
//
//	type input struct {
//		At      when.Ahead `json:"at,omitzero"`      // a time that is mostly to come
//		Since   when.Back  `json:"since,omitzero"`   // a time that has mostly been
//		Timeout when.Span  `json:"timeout,omitzero"` // a length of time
//	}
//	in.At.Time(time.Now().In(zone))
//
// A text that names no time zone is about the clock on the wall of a zone. Where that clock is set forward, a time that
// doesn't exist is the moment of the change; where it is set back, a time that comes twice is the first.
package when

import (
	"math"
	"strconv"
	"strings"
	"time"

	"kernos/internal/jsonscan"
	"kernos/internal/quantity"
)

// The formats in a schema of a number that may be written as a text.
const (
	FormatTime = "unix-ms" // a point in time, in milliseconds since 1970
	FormatSpan = "ms"      // a length of time, in milliseconds
)

// What the parameters may be, in milliseconds.
const (
	MaxTime = 1<<53 - 1
	MaxSpan = 100 * 365 * 24 * 3600 * 1000 // a schema may set another bound for numbers
)

// Examples of each parameter, for errors and schemas.
var (
	AheadExamples = [3]string{"in 2 hours", "tomorrow 09:00", "2026-11-20T09:00"}
	BackExamples  = [3]string{"2h", "yesterday", "2026-11-20T09:00"}
	SpanExamples  = [3]string{"90s", "1h30m", "2 days"}
)

// Expected returns what an error expects in the place of a wrong value.
func Expected(format string, examples [3]string) string {
	number := "milliseconds"
	if format == FormatTime {
		number = "milliseconds since 1970"
	}
	for i, e := range examples {
		if strings.Contains(e, " ") {
			examples[i] = strconv.Quote(e)
		}
	}
	return number + ", or a time such as " + examples[0] + ", " + examples[1] + " or " + examples[2]
}

// A Span is a parameter that is a length of time, in milliseconds.
type Span int64

// Duration returns the length of time, or the longest one.
func (s Span) Duration() time.Duration {
	return time.Duration(min(s, math.MaxInt64/Span(time.Millisecond))) * time.Millisecond
}

// UnmarshalJSON reads a number of milliseconds, or a text.
func (s *Span) UnmarshalJSON(value []byte) error {
	switch value[0] {
	case 'n':
	case '"':
		d, ok := ParseSpan(jsonscan.Unquote(value))
		if !ok {
			return wrong(FormatSpan, SpanExamples, value)
		}
		*s = spanOf(d)
	default:
		n, err := strconv.ParseFloat(string(value), 64)
		if err != nil || n < 0 || n > MaxTime {
			return wrong(FormatSpan, SpanExamples, value)
		}
		*s = Span(math.Ceil(n))
	}
	return nil
}

// spanOf returns a length of time in milliseconds: what isn't 0 is at least one.
func spanOf(d time.Duration) Span {
	ms := Span(d.Milliseconds())
	if d > ms.Duration() {
		ms++
	}
	return ms
}

// ParseSpan reads a length of time: 90s, 1h30m, 2 days, or milliseconds. It is at most a hundred years.
func ParseSpan(text string) (time.Duration, bool) {
	d, err := quantity.ParseMilliseconds(strings.TrimSpace(text))
	return d, err == nil && spanOf(d) <= MaxSpan
}

// Ahead is a parameter that is a point in time. A length of time means from now on, and a day of the week or a
// time of day means the next one.
type Ahead struct{ Moment }

// Time returns the point in time in the time zone of now, or the zero time if none is given.
func (a Ahead) Time(now time.Time) time.Time { return a.Ahead(now) }

// UnmarshalJSON reads milliseconds since 1970, or a text.
func (a *Ahead) UnmarshalJSON(value []byte) error { return a.read(value, AheadExamples) }

// Back is a parameter that is a point in time. A length of time means so long ago, and a day of the week or a time
// of day means the last one.
type Back struct{ Moment }

// Time returns the point in time in the time zone of now, or the zero time if none is given.
func (b Back) Time(now time.Time) time.Time { return b.Back(now) }

// UnmarshalJSON reads milliseconds since 1970, or a text.
func (b *Back) UnmarshalJSON(value []byte) error { return b.read(value, BackExamples) }

// Between returns the two ends of a span that has been, in the zone of now. A time of day that ends it is the first one
// after its beginning: 22:00 to 02:00 ends a day later.
func Between(since, until Back, now time.Time) (from, to time.Time) {
	from, to = since.Time(now), until.Time(now)
	if until.IsClock() && !from.IsZero() && !to.After(from) {
		shown := OnWall(to)
		to = FromWall(shown.AddDate(0, 0, 1), now.Location())
	}
	return from, to
}

// read reads a number or a text. 0 means that none is given.
func (m *Moment) read(value []byte, examples [3]string) error {
	switch value[0] {
	case 'n':
	case '"':
		read, ok := Parse(jsonscan.Unquote(value))
		if !ok {
			return wrong(FormatTime, examples, value)
		}
		*m = read
		m.text = string(value)
	default:
		n, err := strconv.ParseFloat(string(value), 64)
		if err != nil || n < 0 || n > MaxTime {
			return wrong(FormatTime, examples, value)
		}
		*m = Moment{}
		if n >= 1 {
			*m = exactly(time.UnixMilli(int64(n)))
			m.text = string(value)
		}
	}
	return nil
}

// MarshalJSON returns the number or the text that was read.
func (m Moment) MarshalJSON() ([]byte, error) {
	if m.text == "" {
		return []byte("null"), nil
	}
	return []byte(m.text), nil
}

// A wrongValue is the error of a value that can't be read.
type wrongValue struct{ expected, got string }

func (e *wrongValue) Error() string { return "expected " + e.expected + ", got " + e.got }

func wrong(format string, examples [3]string, value []byte) error {
	return &wrongValue{Expected(format, examples), string(value[:min(len(value), 40)])}
}

// Fits reports whether a text is a value of a format, and a span of the format lies between two bounds. Texts of other
// formats all fit.
func Fits(format, text string, least, most float64) bool {
	switch format {
	case FormatTime:
		_, ok := Parse(text)
		return ok
	case FormatSpan:
		d, ok := ParseSpan(text)
		ms := float64(spanOf(d))
		return ok && ms >= least && ms <= most
	}
	return true
}
