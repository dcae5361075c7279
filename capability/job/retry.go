package job

import (
	"cmp"
	"slices"
	"time"

	"kernos/internal/backoff"
	"kernos/internal/when"
)

type retryInput struct {
	Attempts int       `json:"attempts" jsonschema:"minimum=1,maximum=100" jsonschema_description:"How many attempts there are in all."`
	Backoff  when.Span `json:"backoff,omitzero" jsonschema_description:"The pause before the second attempt: milliseconds, or a text such as 5s. Each pause is twice as long as the one before, up to an hour, and varies by half. Default: 1s."`
	Codes    []int     `json:"codes,omitzero" jsonschema:"maxItems=100" jsonschema_description:"The error codes after which there is another attempt. Default: 408, 425, 429, 500, 502, 503, 504 and 507."`
}

// A retryRule is a retryInput as it is stored.
type retryRule struct {
	Attempts int   `json:"attempts"`
	Backoff  int64 `json:"backoff"` // ms
	Codes    []int `json:"codes,omitzero"`
}

var defaultCodes = []int{408, 425, 429, 500, 502, 503, 504, 507}

func (r *retryInput) read() *retryRule {
	if r == nil {
		return nil
	}
	return &retryRule{r.Attempts, cmp.Or(r.Backoff.Duration(), time.Second).Milliseconds(), r.Codes}
}

// again reports whether there is another attempt after the given number of failed ones.
func (r *retryRule) again(failed int, code int) bool {
	codes := defaultCodes
	if r != nil && len(r.Codes) > 0 {
		codes = r.Codes
	}
	return r != nil && failed < r.Attempts && slices.Contains(codes, code)
}

// maxBackoff is the longest pause between two attempts, before it varies.
const maxBackoff = time.Hour

// pauseAfter returns the pause after the given number of failed attempts: twice as long each time, and
// between half and one and a half of that.
func pauseAfter(rule *retryRule, failed int) time.Duration {
	first := time.Duration(rule.Backoff) * time.Millisecond
	pauses := backoff.Backoff{First: max(min(first, maxBackoff), time.Millisecond), Longest: maxBackoff, Jitter: true}
	for range failed - 1 {
		pauses.Grow()
	}
	return pauses.Next()
}
