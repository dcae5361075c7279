package schema

import (
	"encoding/json"
	"math"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"golang.org/x/text/message"

	"kernos/internal/when"
)

// timeText is the extension of a part whose format is a time or a length of time in milliseconds: a text there is one that
// package when reads.
type timeText struct {
	format      string
	least, most float64
	examples    [3]string
}

// newTimeText returns the extension of a part with these keywords.
func newTimeText(format string, keywords map[string]any) timeText {
	t := timeText{format, math.Inf(-1), math.Inf(1), when.SpanExamples}
	if format == when.FormatTime {
		t.examples = when.AheadExamples
	}
	if n, ok := keywords["minimum"].(json.Number); ok {
		t.least, _ = n.Float64()
	}
	if n, ok := keywords["maximum"].(json.Number); ok {
		t.most, _ = n.Float64()
	}
	if own, ok := keywords["examples"].([]any); ok && len(own) == len(t.examples) {
		for i, e := range own {
			if text, ok := e.(string); ok {
				t.examples[i] = text
			}
		}
	}
	return t
}

// Validate checks a text. Numbers are checked by the other keywords.
func (t timeText) Validate(ctx *jsonschema.ValidatorContext, v any) {
	text, ok := v.(string)
	switch {
	case !ok || when.Fits(t.format, text, t.least, t.most):
	case when.Fits(t.format, text, math.Inf(-1), math.Inf(1)):
		d, _ := when.ParseSpan(text)
		bound := t.least
		expected := "at least "
		if float64(d.Milliseconds()) > t.most {
			bound, expected = t.most, "at most "
		}
		ctx.AddError(&notTime{expected + when.Span(bound).Duration().String()})
	default:
		ctx.AddError(&notTime{when.Expected(t.format, t.examples)})
	}
}

// notTime is the kind of error of a text that isn't a time.
type notTime struct{ expected string }

// KeywordPath implements [jsonschema.ErrorKind].
func (*notTime) KeywordPath() []string { return []string{"format"} }

// LocalizedString implements [jsonschema.ErrorKind].
func (k *notTime) LocalizedString(*message.Printer) string { return "expected " + k.expected }
