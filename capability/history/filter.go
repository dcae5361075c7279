package history

import (
	"cmp"
	"context"
	"encoding/json"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"kernos/internal/jsonscan"
	"kernos/internal/when"
	"kernos/journal"
	"kernos/kernel"
	"kernos/kernel/principal"
	"kernos/message"
	"kernos/message/osevent"
)

// filter is the part of an input that selects messages.
type filter struct {
	Line          string         `json:"filter,omitempty" jsonschema:"maxLength=2000" jsonschema_description:"All that follows as one line, as a person types it: kind:error type:Http.* corr:req-7 since:5m by:ci code:404 milk. A word without a name has to occur in the type, the id or the data."`
	ID            string         `json:"id,omitempty" jsonschema:"maxLength=256" jsonschema_description:"Only messages with this id. An id can be given in a short form, its beginning and its end with … between them; so can correlation and causation."`
	Correlation   string         `json:"correlation,omitempty" jsonschema:"maxLength=256" jsonschema_description:"Only messages of this workflow: metadata.correlation."`
	CorrelationID string         `json:"correlationId,omitempty" jsonschema:"maxLength=256" jsonschema_description:"Another name for correlation."`
	Causation     string         `json:"causation,omitempty" jsonschema:"maxLength=256" jsonschema_description:"Only messages that the message with this id caused: its answer, events, calls."`
	Kind          jsontext.Value `json:"kind,omitempty" jsonschema:"oneof_type=string;array" jsonschema_description:"Only messages of this kind: command, query, event, reply or error. What calls no syscall isn't recorded. Several: a list of those, or one text with commas."`
	Type          jsontext.Value `json:"type,omitempty" jsonschema:"oneof_type=string;array" jsonschema_description:"Only messages of this type (Memory.Set), of a domain (Memory.*), or of an action (*.Set). Several: a list of those, or one text with commas."`
	Since         when.Back      `json:"since,omitzero" jsonschema_description:"Only messages recorded at this time or later: milliseconds since 1970, a time such as 2026-01-31T12:00:00Z, today, yesterday 18:00, or how long ago, such as 90s, 1h or 3 days ago."`
	Until         when.Back      `json:"until,omitzero" jsonschema_description:"Only messages recorded before this time, written as since is."`
	Principal     jsontext.Value `json:"principal,omitempty" jsonschema:"oneof_type=string;array" jsonschema_description:"Only messages that acted for this caller: owner, or the name or id of a token. Several: a list of those, or one text with commas."`
	Code          jsontext.Value `json:"code,omitempty" jsonschema:"oneof_type=integer;array" jsonschema_description:"Only errors with this code, from 400 to 599. Several: a list of those."`
}

// filter checks a filter and puts it into the journal's words. The caller of ctx sees its own
// messages only, unless its principal sees all.
func (r reader) filter(ctx context.Context, f *filter) (journal.Filter, error) {
	words, err := f.readLine()
	if err != nil {
		return journal.Filter{}, err
	}
	if f.Correlation != "" && f.CorrelationID != "" && f.Correlation != f.CorrelationID {
		return journal.Filter{}, message.Invalid("correlationId", "correlation and correlationId are two names for one thing and differ; leave one out")
	}
	q := journal.Filter{Own: ownOf(ctx), Words: words}
	var id, causation string
	for _, err := range []error{
		r.wholeID(ctx, f.ID, &id),
		r.wholeID(ctx, cmp.Or(f.Correlation, f.CorrelationID), &q.Correlation),
		r.wholeID(ctx, f.Causation, &causation),
		readKinds(f.Kind, &q.Kinds),
		readTypes(f.Type, &q.Type),
		readCodes(f.Code, &q.Codes),
		readPrincipals(f.Principal, &q.Principals),
	} {
		if err != nil {
			return journal.Filter{}, err
		}
	}
	since, until := when.Between(f.Since, f.Until, time.Now())
	q.Since, q.Until = milliseconds(since), milliseconds(until)
	q.ID, q.Causation = message.ID(id), message.ID(causation)
	return q, nil
}

// narrowed returns the note for a caller that doesn't see the messages of all principals.
func narrowed(ctx context.Context) kernel.Narrowed {
	return kernel.Narrow(ctx, (*principal.Principal).SeesAll)
}

// ownOf returns the principal whose messages are all that the caller of ctx sees, or "" if it
// sees those of all principals.
func ownOf(ctx context.Context) principal.ID {
	if p := kernel.PrincipalOf(ctx); !p.SeesAll() {
		return p.ID()
	}
	return ""
}

// maxValues is how many values one field of a filter may have.
const maxValues = 100

// readTexts reads a field that is one text, of which commas make several, or a list of texts. No
// value, and an empty text, is nil.
func readTexts(field string, v jsontext.Value) (texts []string, err error) {
	switch {
	case len(v) == 0 || v.Kind() == 'n' || string(v) == `""`:
		return nil, nil
	case v.Kind() == '"':
		texts = strings.Split(jsonscan.Unquote(v), ",")
	default:
		if json.Unmarshal(v, &texts) != nil {
			return nil, message.Invalid(field, "%s: expected a text, or a list of texts", field)
		}
	}
	for i := range texts {
		texts[i] = strings.TrimSpace(texts[i])
	}
	return texts, countValues(field, len(texts))
}

// countValues refuses a list with no values, or with too many.
func countValues(field string, n int) error {
	switch {
	case n == 0:
		return message.Invalid(field, "%s: expected at least one value, got an empty list; leave it out to get all", field)
	case n > maxValues:
		return message.Invalid(field, "%s: expected at most %d values, got %d", field, maxValues, n)
	}
	return nil
}

// readTypes reads the patterns that types may have, in the form that the journal takes.
func readTypes(v jsontext.Value, to *string) error {
	texts, err := readTexts("type", v)
	if err != nil {
		return err
	}
	for _, p := range texts {
		if !isPattern(p) {
			return message.Invalid("type", `type: expected a type such as Memory.Set, a domain such as Memory.*, an action such as *.Set, or *; got %q`, message.Clip(p, 64))
		}
	}
	*to = strings.Join(texts, ",")
	return nil
}

func readKinds(v jsontext.Value, to *[]message.Kind) error {
	texts, err := readTexts("kind", v)
	if err != nil {
		return err
	}
	for _, text := range texts {
		k := message.Kind(text)
		if text == osevent.Dialect.Reply { // as the answers to a question in the older dialect have it
			k = message.KindReply
		}
		if !k.Valid() {
			return message.Invalid("kind", "kind: expected command, query, event, reply or error, got %q", message.Clip(text, 64))
		}
		*to = append(*to, k)
	}
	return nil
}

func readPrincipals(v jsontext.Value, to *[]string) error {
	texts, err := readTexts("principal", v)
	if err != nil {
		return err
	}
	for _, text := range texts {
		if text == "" || len(text) > 256 {
			return message.Invalid("principal", "principal: expected owner, or the name or id of a token, got %q", message.Clip(text, 64))
		}
	}
	*to = texts
	return nil
}

// readCodes reads the codes of errors: a number, or a list of numbers. 0 means that none is given.
func readCodes(v jsontext.Value, to *[]int) error {
	switch {
	case len(v) == 0 || v.Kind() == 'n' || string(v) == "0":
		return nil
	case v.Kind() == '0':
		v = slices.Concat(jsontext.Value("["), v, jsontext.Value("]"))
	}
	var codes []float64 // integers, in any notation
	if json.Unmarshal(v, &codes) != nil {
		return message.Invalid("code", "code: expected a number, or a list of numbers")
	}
	if err := countValues("code", len(codes)); err != nil {
		return err
	}
	for _, c := range codes {
		if c < 400 || c > 599 || c != math.Trunc(c) {
			return message.Invalid("code", "code: expected a whole number from 400 to 599, got %v", c)
		}
		*to = append(*to, int(c))
	}
	return nil
}

// isPattern takes a type, a domain or an action with a star, or a star.
func isPattern(p string) bool {
	domain, ofDomain := strings.CutSuffix(p, ".*")
	action, anywhere := strings.CutPrefix(p, "*.")
	return p == "*" || message.Type(p).Valid() ||
		ofDomain && message.Type(domain+".A").Valid() || anywhere && message.Type("A."+action).Valid()
}

// milliseconds returns a time as the journal has it; 0 is none.
func milliseconds(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return max(t.UnixMilli(), 0)
}
