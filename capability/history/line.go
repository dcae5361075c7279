package history

import (
	"cmp"
	"encoding/json"
	"strings"
	"unicode"

	"github.com/go-json-experiment/json/jsontext"

	"kernos/internal/jsonscan"
	"kernos/internal/nearest"
	"kernos/internal/when"
	"kernos/message"
)

// lineFields are the names in a filter line, with the member of the filter that each one is.
var lineFields = map[string]func(*filter) (member string, to *jsontext.Value){
	"kind": func(f *filter) (string, *jsontext.Value) { return "kind", &f.Kind },
	"type": func(f *filter) (string, *jsontext.Value) { return "type", &f.Type },
	"by":   func(f *filter) (string, *jsontext.Value) { return "principal", &f.Principal },
	"code": func(f *filter) (string, *jsontext.Value) { return "code", &f.Code },
}

// lineTimes are the names of members that are times.
var lineTimes = map[string]func(*filter) *when.Back{
	"since": func(f *filter) *when.Back { return &f.Since },
	"until": func(f *filter) *when.Back { return &f.Until },
}

// lineTexts are the names of members that are plain texts.
var lineTexts = map[string]func(*filter) *string{
	"id":    func(f *filter) *string { return &f.ID },
	"corr":  func(f *filter) *string { return &f.Correlation },
	"cause": func(f *filter) *string { return &f.Causation },
}

// lineNames are all names, as an error lists them.
var lineNames = []string{"kind", "type", "corr", "cause", "id", "since", "until", "by", "code"}

// readLine puts the fields of the filter's line into their members, and returns its words.
func (f *filter) readLine() (words []string, err error) {
	for _, part := range splitLine(f.Line) {
		name, value, named := strings.Cut(part.text, ":")
		switch {
		case part.quoted || !named || name == "" || strings.HasPrefix(value, "//"): // an address is a word
			words = append(words, part.text)
		case value == "":
			return nil, message.Invalid("filter", "filter: %s: has no value", name)
		case lineTexts[name] != nil:
			to := lineTexts[name](f)
			if *to != "" && *to != value {
				return nil, message.Invalid("filter", "filter: %s is given twice, as %q and %q", name, message.Clip(*to, 64), message.Clip(value, 64))
			}
			*to = value
		case lineTimes[name] != nil:
			to := lineTimes[name](f)
			if !to.IsZero() {
				return nil, message.Invalid("filter", "filter: %s is given twice", name)
			}
			if err := to.UnmarshalJSON(jsonscan.AppendQuoted(nil, value)); err != nil {
				return nil, message.Invalid("filter", "filter: %s: %v", name, err)
			}
		case lineFields[name] != nil:
			member, to := lineFields[name](f)
			if len(*to) > 0 {
				return nil, message.Invalid("filter", "filter: %s is given twice; several values are one text with commas", member)
			}
			if *to, err = lineValue(name, value); err != nil {
				return nil, err
			}
		default:
			hint := cmp.Or(nearest.Hint(name, lineNames), "the names are "+strings.Join(lineNames, ", "))
			return nil, message.Invalid("filter", "filter: %q isn't a name: %s; a word with a colon stands in quotes", message.Clip(name, 64), hint)
		}
	}
	return words, nil
}

// lineValue returns a value of a line as the member of the filter has it.
func lineValue(name, value string) (jsontext.Value, error) {
	if name == "code" { // numbers
		v := jsontext.Value("[" + value + "]")
		if !v.IsValid() {
			return nil, message.Invalid("filter", "filter: code: expected numbers such as 404 or 404,409, got %q", message.Clip(value, 64))
		}
		return v, nil
	}
	text, err := json.Marshal(value)
	return text, err
}

type linePart struct {
	text   string
	quoted bool // the whole of it
}

// splitLine splits a line at its white space, outside of double quotes.
func splitLine(line string) (parts []linePart) {
	var b strings.Builder
	inside, any, quoted := false, false, false
	end := func() {
		if any {
			parts = append(parts, linePart{b.String(), quoted})
		}
		b.Reset()
		any, quoted = false, false
	}
	for _, r := range line {
		switch {
		case r == '"':
			quoted = quoted || !any
			inside, any = !inside, true
		case unicode.IsSpace(r) && !inside:
			end()
		default:
			any = true
			b.WriteRune(r)
		}
	}
	end()
	return parts
}
