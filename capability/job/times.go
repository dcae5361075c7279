package job

import (
	"math"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"kernos/internal/jsonscan"
	"kernos/internal/quantity"
	"kernos/message"
)

// readSpan reads a length of time: milliseconds, or a text such as 1m30s. No value is 0; one that is
// given and not 0 is at least a millisecond.
func readSpan(field string, v jsontext.Value) (time.Duration, error) {
	switch {
	case len(v) == 0 || v.Kind() == 'n':
		return 0, nil
	case v.Kind() == '0':
		n, err := strconv.ParseFloat(string(v), 64)
		if err != nil || n < 0 || n > maxSpan.Seconds()*1000 {
			return 0, invalid(field, "expected milliseconds, at most a hundred years, got %s", message.Clip(string(v), 40))
		}
		return time.Duration(math.Ceil(n)) * time.Millisecond, nil
	}
	d, err := quantity.ParseMilliseconds(jsonscan.Unquote(v))
	if err != nil || d > maxSpan {
		return 0, invalid(field, "expected milliseconds, or a text such as 90s, 1m30s, 2h or 7d, got %s", message.Clip(string(v), 40))
	}
	return (d + time.Millisecond - 1).Truncate(time.Millisecond), nil
}

const maxSpan = 100 * 365 * 24 * time.Hour

// readTime reads a point in time: milliseconds since 1970, a time, or a length of time, which from
// turns into a time. No value is the zero time.
func readTime(field string, v jsontext.Value, from func(time.Duration) time.Time) (time.Time, error) {
	switch {
	case len(v) == 0 || v.Kind() == 'n':
		return time.Time{}, nil
	case v.Kind() == '0':
		n, err := strconv.ParseFloat(string(v), 64)
		if err != nil || n < 0 || n > 1<<53 {
			return time.Time{}, invalid(field, "expected milliseconds since 1970, got %s", message.Clip(string(v), 40))
		}
		return time.UnixMilli(int64(n)), nil
	}
	text := jsonscan.Unquote(v)
	for _, layout := range []string{time.RFC3339, "2006-01-02 15:04:05", "2006-01-02 15:04", time.DateOnly} {
		if t, err := time.ParseInLocation(layout, text, time.Local); err == nil {
			return t, nil
		}
	}
	if n, err := strconv.ParseUint(text, 10, 53); err == nil { // as a shell writes it
		return time.UnixMilli(int64(n)), nil
	}
	if d, err := quantity.ParseDuration(text); err == nil && d <= maxSpan {
		return from(d), nil
	}
	return time.Time{}, invalid(field, "expected a time such as 2026-01-31T12:00:00Z, milliseconds since 1970, or a length of time such as 10m; got %s", message.Clip(string(v), 40))
}

// never is when a schedule that is paused is due.
var never = time.UnixMilli(1<<53 - 1)

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
