package memory

import (
	"cmp"
	"context"
	"encoding/json"
	"math"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"kernos/kernel"
	"kernos/message"
)

type incrementInput struct {
	Key string         `json:"key" jsonschema_description:"Path of a number, for example 'counters/visits'. A key that doesn't exist counts as 0."`
	By  jsontext.Value `json:"by,omitempty" jsonschema:"type=number,default=1" jsonschema_description:"What is added; negative to subtract."`
}

type incrementOutput struct {
	Value jsontext.Value `json:"value" jsonschema:"type=number" jsonschema_description:"The number that the key has now."`
}

var increment = kernel.DefineCommand[incrementInput, incrementOutput](kernel.Definition{
	Type:    "Memory.Increment",
	Summary: "Add to a number under a key, in one step; no other change comes between. The new number is durable when the reply arrives.",
	Emits:   changed,
	Presentation: kernel.Presentation{
		Title: "Add to a number",
		Words: "counter, increment, count, count up, sequence, plus, tally, raise, add one to it, plus one, bump a counter, keep count of, " +
			"increase a number, decrease a number, count down, subtract from a number, add to a total, keep score",
		Result:    "{request.key} is {value}",
		Arguments: []string{"key", "by"}, Errors: []kernel.ErrorDefinition{
			{Code: 403, When: "the key can't be written"},
			{Code: 409, When: "the value of the key isn't a number"},
			{Code: 422, When: "the result is too large for a number"},
		},
	},
	Behavior: kernel.Behavior{Short: true},
})

func (m *Memory) increment(ctx context.Context, in incrementInput) (incrementOutput, error) {
	by := cmp.Or(string(in.By), "1")
	var sum string
	_, err := m.replace(ctx, in.Key, func(key memoryKey, old *prior) ([]byte, int64, error) {
		text, expires := []byte("0"), int64(0)
		if old.entry.Revision != 0 && !old.expired(m.opts.Now().UnixMilli()) {
			var err error
			if text, err = m.value(&old.version); err != nil {
				return nil, 0, err
			}
			expires = old.expires // the number lives on as it was
		}
		if c := text[0]; c != '-' && (c < '0' || c > '9') {
			return nil, 0, message.Errorf(409, "%s holds %s, and only a number can be incremented; Memory.Set sets it to one", in.Key, message.Describe(text))
		}
		var err error
		sum, err = add(string(text), by)
		return []byte(sum), expires, err
	})
	return incrementOutput{Value: jsontext.Value(sum)}, m.backend(err)
}

// add adds two JSON numbers. Whole numbers are added exactly; others as floating point.
func add(a, b string) (string, error) {
	x, errX := strconv.ParseInt(a, 10, 64)
	y, errY := strconv.ParseInt(b, 10, 64)
	if errX == nil && errY == nil {
		sum := x + y
		if (sum > x) != (y > 0) && y != 0 {
			return "", tooLarge(a, b)
		}
		return strconv.FormatInt(sum, 10), nil
	}
	f, _ := strconv.ParseFloat(a, 64) // infinite if it is out of range
	g, _ := strconv.ParseFloat(b, 64)
	if isInteger(a) && errX != nil || isInteger(b) && errY != nil || math.IsInf(f+g, 0) || math.IsNaN(f+g) {
		return "", tooLarge(a, b)
	}
	text, err := json.Marshal(f + g)
	return string(text), err
}

// isInteger reports whether a number is written as an integer.
func isInteger(number string) bool { return !strings.ContainsAny(number, ".eE") }

func tooLarge(a, b string) error {
	return message.Errorf(422, "The sum of %s and %s is too large: whole numbers go up to %d, others to about 1.8e308", message.Clip(a, 40), message.Clip(b, 40), math.MaxInt64)
}
