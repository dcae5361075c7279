package history

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"kernos/internal/jsonscan"
	"kernos/internal/quantity"
	"kernos/journal"
	"kernos/kernel"
	"kernos/kernel/principal"
	"kernos/message"
)

// filter is the part of an input that says which messages are meant.
type filter struct {
	Correlation   string         `json:"correlation,omitempty" jsonschema:"maxLength=256" jsonschema_description:"Only messages of this workflow: metadata.correlation."`
	CorrelationID string         `json:"correlationId,omitempty" jsonschema:"maxLength=256" jsonschema_description:"Another name for correlation."`
	Causation     string         `json:"causation,omitempty" jsonschema:"maxLength=256" jsonschema_description:"Only messages that the message with this id caused: its answer, events, calls."`
	Kind          message.Kind   `json:"kind,omitempty" jsonschema:"enum=command,enum=query,enum=event,enum=reply,enum=error" jsonschema_description:"Only messages of this kind."`
	Type          jsontext.Value `json:"type,omitempty" jsonschema:"oneof_type=string;array" jsonschema_description:"Only messages of this type (Memory.Set), of a domain (Memory.*), or of an action (*.Set). Several: a list of those, or one text with commas."`
	Since         jsontext.Value `json:"since,omitempty" jsonschema:"oneof_type=integer;string" jsonschema_description:"Only messages recorded at this time or later: milliseconds since 1970, a time such as 2026-01-31T12:00:00Z, or how long ago, such as 90s, 1h or 7d."`
	Until         jsontext.Value `json:"until,omitempty" jsonschema:"oneof_type=integer;string" jsonschema_description:"Only messages recorded before this time, written as since is."`
	Principal     string         `json:"principal,omitempty" jsonschema:"maxLength=256" jsonschema_description:"Only messages that acted for this caller: owner, or the name or id of a token."`
	Code          int            `json:"code,omitempty" jsonschema:"minimum=400,maximum=599" jsonschema_description:"Only errors with this code."`
}

// read checks a filter and puts it into the journal's words. The caller of ctx sees its own
// messages only, unless its principal sees all.
func (f *filter) read(ctx context.Context) (journal.Filter, error) {
	if c := (chosen{f.Correlation, f.CorrelationID}); c != (chosen{}) {
		if _, err := c.correlation(); err != nil {
			return journal.Filter{}, err
		}
	}
	types, err := readTypes(f.Type)
	if err != nil {
		return journal.Filter{}, err
	}
	since, err := readTime("since", f.Since)
	if err != nil {
		return journal.Filter{}, err
	}
	until, err := readTime("until", f.Until)
	if err != nil {
		return journal.Filter{}, err
	}
	return journal.Filter{
		Correlation: cmp.Or(f.Correlation, f.CorrelationID),
		Causation:   message.ID(f.Causation),
		Kind:        f.Kind,
		Type:        types,
		Since:       since,
		Until:       until,
		Code:        f.Code,
		Principal:   f.Principal,
		Own:         ownOf(ctx),
	}, nil
}

// ownOf returns the principal whose messages are all that the caller of ctx sees, or "" if it
// sees those of all principals.
func ownOf(ctx context.Context) principal.ID {
	if p := kernel.PrincipalOf(ctx); !p.SeesAll() {
		return p.ID()
	}
	return ""
}

// invalid is the error for a field that fits the schema and makes no sense.
func invalid(field, format string, args ...any) *message.Error {
	return &message.Error{Code: 422, Message: "Schema validation failed: " + fmt.Sprintf(format, args...), Field: field}
}

// maxTypes is how many patterns a filter may have.
const maxTypes = 100

// readTypes reads the patterns that types may have, and returns them as the journal has them.
func readTypes(v jsontext.Value) (string, error) {
	var texts []string
	switch {
	case len(v) == 0 || v.Kind() == 'n' || string(v) == `""`:
		return "", nil
	case v.Kind() == '"':
		texts = strings.Split(jsonscan.Unquote(v), ",")
	default:
		if json.Unmarshal(v, &texts) != nil {
			return "", invalid("type", "type: expected a text, or a list of texts")
		}
		if len(texts) == 0 {
			return "", invalid("type", "type: expected at least one type, got an empty list; leave it out to get all")
		}
	}
	if len(texts) > maxTypes {
		return "", invalid("type", "type: expected at most %d types, got %d", maxTypes, len(texts))
	}
	for i, p := range texts {
		texts[i] = strings.TrimSpace(p)
		if !isPattern(texts[i]) {
			return "", invalid("type", `type: expected a type such as Memory.Set, a domain such as Memory.*, an action such as *.Set, or *; got %q`, message.Clip(p, 64))
		}
	}
	return strings.Join(texts, ","), nil
}

// isPattern takes a type, a domain or an action with a star, or a star.
func isPattern(p string) bool {
	domain, ofDomain := strings.CutSuffix(p, ".*")
	action, anywhere := strings.CutPrefix(p, "*.")
	return p == "*" || message.Type(p).Valid() ||
		ofDomain && message.Type(domain+".A").Valid() || anywhere && message.Type("A."+action).Valid()
}

// readTime reads a point in time as milliseconds since 1970. No value is 0.
func readTime(field string, v jsontext.Value) (int64, error) {
	if len(v) == 0 || v.Kind() == 'n' {
		return 0, nil
	}
	if v.Kind() == '0' {
		n, err := strconv.ParseFloat(string(v), 64) // an integer, in any notation
		if err != nil || n < 0 || n > 1<<53 {
			return 0, invalid(field, "%s: expected milliseconds since 1970, got %s", field, message.Clip(string(v), 40))
		}
		return int64(n), nil
	}
	text := jsonscan.Unquote(v)
	for _, layout := range []string{time.RFC3339, time.DateOnly} {
		if t, err := time.Parse(layout, text); err == nil {
			return max(t.UnixMilli(), 0), nil
		}
	}
	if n, err := strconv.ParseInt(text, 10, 64); err == nil && n >= 0 {
		return n, nil
	}
	if ago, err := quantity.ParseDuration(text); err == nil {
		return max(time.Now().Add(-ago).UnixMilli(), 0), nil
	}
	return 0, invalid(field, "%s: expected milliseconds since 1970, a time such as 2026-01-31T12:00:00Z, or how long ago, such as 90s, 1h or 7d; got %q", field, message.Clip(text, 40))
}
