package client

import (
	"encoding/json"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"kernos/internal/jsonvalue"
)

// Example returns parameters that the method takes: what is required, and a value for each
// that its schema allows. It returns nil if it finds none.
func (m *Method) Example() json.RawMessage {
	text := example(&m.Field, 0)
	if text == nil || m.Validate(text) != nil {
		return nil
	}
	return text
}

// maxExample is how many elements and letters an example may need.
const maxExample = 64

// formats are values for the formats of strings.
var formats = map[string]string{
	"uuid": "123e4567-e89b-12d3-a456-426614174000", "date-time": "2026-01-31T12:00:00Z", "date": "2026-01-31",
	"time": "12:00:00Z", "duration": "PT1H", "email": "ada@example.org", "hostname": "example.org", "ipv4": "192.0.2.1",
	"ipv6": "2001:db8::1", "uri": "https://example.org/", "uri-reference": "/notes/1", "regex": ".*", "json-pointer": "/a",
}

// told finds an example that a description tells.
var told = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?:[Ee]\.g\.,?|[Ff]or example,?|[Ee]xample:)\s+(?:'([^']+)'|(\w[\w+.-]*://\S*[\w/]))`)
})

// example returns a value that fits a field, or nil.
func example(f *Field, depth int) json.RawMessage {
	if depth > maxDepth {
		return nil
	}
	for _, values := range [][]json.RawMessage{f.Examples, f.Enum} {
		if len(values) > 0 {
			return values[0]
		}
	}
	if f.Default != nil && string(f.Default) != "null" {
		return f.Default
	}
	if len(f.Forms) > 0 && len(f.Fields) == 0 {
		return example(f.Forms[0], depth+1)
	}
	kind := "string"
	if len(f.Types) > 0 {
		kind = f.Types[0]
	}
	switch kind {
	case "object":
		o := jsonvalue.Object{}
		for _, inner := range f.Fields {
			if !inner.Required && !(len(f.Forms) > 0 && slices.Contains(f.Forms[0].Needs, inner.Name)) {
				continue
			}
			value := example(inner, depth+1)
			if value == nil {
				return nil
			}
			o = o.Set(inner.Name, value)
		}
		return o.Text()
	case "array":
		count := f.MinItems
		if count > maxExample {
			return nil
		}
		if count == 0 && f.Required {
			count = 1
		}
		elements := make([]string, 0, count)
		for range count {
			items := f.Items
			if items == nil {
				items = new(Field)
			}
			element := example(items, depth+1)
			if element == nil {
				return nil
			}
			elements = append(elements, string(element))
		}
		return json.RawMessage("[" + strings.Join(elements, ",") + "]")
	case "integer", "number":
		return number(f)
	case "boolean":
		return json.RawMessage("true")
	case "null":
		return json.RawMessage("null")
	}
	text, ok := formats[f.Format]
	if !ok {
		if found := told().FindStringSubmatch(f.Description); found != nil {
			quoted, _ := json.Marshal(found[1] + found[2])
			return quoted
		}
		text = f.Name
		if text == "" {
			text = "text"
		}
		if short := f.MinLength - len(text); short > maxExample {
			return nil
		} else if short > 0 {
			text += strings.Repeat("x", short)
		}
	}
	quoted, _ := json.Marshal(text)
	return quoted
}

func number(f *Field) json.RawMessage {
	n := 1.0
	if f.Minimum != nil && n < *f.Minimum {
		n = *f.Minimum
	}
	if f.Maximum != nil && n > *f.Maximum {
		n = *f.Maximum
	}
	return json.RawMessage(strconv.FormatFloat(n, 'f', -1, 64))
}
