package schema

import (
	"cmp"
	"encoding/json"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"kernos/internal/jsonscan"
)

// ExampleOf makes a value that fits a schema: the fields that are required, with values that
// look like what is asked for. It reports false if it can't make one. The value is valid.
func ExampleOf(s *Schema) (json.RawMessage, bool) {
	e := exampler{root: s.JSON(), left: maxExampleValues}
	value, ok := e.value(nil, e.root, "", 0)
	if !ok || s.Validate(value) != nil {
		return nil, false
	}
	return value, true
}

// exampler makes an example of one schema.
type exampler struct {
	root json.RawMessage
	left int // how many more values the example may have
}

// Limits of an example.
const (
	maxExampleDepth  = 16
	maxExampleValues = 256
	maxExampleText   = 1 << 10
)

// shape is what an example needs to know of a schema.
type shape struct {
	Ref         string                     `json:"$ref"`
	Const       json.RawMessage            `json:"const"`
	Default     json.RawMessage            `json:"default"`
	Examples    []json.RawMessage          `json:"examples"`
	Enum        []json.RawMessage          `json:"enum"`
	OneOf       []json.RawMessage          `json:"oneOf"`
	AnyOf       []json.RawMessage          `json:"anyOf"`
	AllOf       []json.RawMessage          `json:"allOf"`
	Type        json.RawMessage            `json:"type"`
	Description string                     `json:"description"`
	Properties  map[string]json.RawMessage `json:"properties"`
	Required    []string                   `json:"required"`
	Items       json.RawMessage            `json:"items"`
	MinItems    int                        `json:"minItems"`
	MaxItems    *int                       `json:"maxItems"`
	Format      string                     `json:"format"`
	Pattern     string                     `json:"pattern"`
	MinLength   int                        `json:"minLength"`
	MaxLength   *int                       `json:"maxLength"`
	Minimum     *float64                   `json:"minimum"`
	Maximum     *float64                   `json:"maximum"`
	Above       *float64                   `json:"exclusiveMinimum"`
	Below       *float64                   `json:"exclusiveMaximum"`
	Step        *float64                   `json:"multipleOf"`
}

// value appends an example of the schema in text. The name is that of the field, or "".
func (e *exampler) value(dst, text []byte, name string, depth int) ([]byte, bool) {
	if e.left--; depth > maxExampleDepth || e.left < 0 || len(text) == 0 {
		return dst, false
	}
	if text[0] != '{' { // true, or false
		return jsonscan.AppendQuoted(dst, cmp.Or(name, "text")), text[0] == 't'
	}
	var s shape
	if json.Unmarshal(text, &s) != nil {
		return dst, false
	}
	forms := slices.Concat(s.OneOf, s.AnyOf, s.AllOf)
	switch {
	case s.Const != nil:
		return append(dst, s.Const...), true
	case len(s.Examples) > 0:
		return append(dst, s.Examples[0]...), true
	case len(s.Enum) > 0:
		return append(dst, s.Enum[0]...), true
	case s.Default != nil && string(s.Default) != "null":
		return append(dst, s.Default...), true
	case s.Ref != "":
		return e.value(dst, e.resolve(s.Ref), name, depth+1)
	case len(forms) > 0 && s.Properties == nil:
		for _, form := range forms {
			if out, ok := e.value(dst, form, name, depth+1); ok {
				return out, true
			}
		}
		return dst, false
	}
	switch s.kind() {
	case "object":
		return e.object(dst, &s, forms, depth)
	case "array":
		return e.array(dst, &s, depth)
	case "integer", "number":
		return strconv.AppendFloat(dst, s.number(), 'f', -1, 64), true
	case "boolean":
		return append(dst, "true"...), true
	case "null":
		return append(dst, "null"...), true
	}
	word, ok := s.text(cmp.Or(name, "text"))
	return jsonscan.AppendQuoted(dst, word), ok
}

// kind returns the type of the values, as far as the schema restricts it.
func (s *shape) kind() string {
	var one string
	var several []string
	switch {
	case json.Unmarshal(s.Type, &one) == nil:
		return one
	case json.Unmarshal(s.Type, &several) == nil:
		if i := slices.IndexFunc(several, func(k string) bool { return k != "null" }); i >= 0 {
			return several[i]
		}
		return "null"
	case s.Properties != nil || s.Required != nil:
		return "object"
	case s.Items != nil:
		return "array"
	case s.Minimum != nil || s.Step != nil:
		return "number"
	}
	return "string"
}

// object appends an object with the fields that the schema requires, or the first of its forms.
func (e *exampler) object(dst []byte, s *shape, forms []json.RawMessage, depth int) ([]byte, bool) {
	names := s.Required
	if len(forms) > 0 {
		var form shape
		_ = json.Unmarshal(forms[0], &form) // a form that is true or false requires nothing
		names = slices.Concat(names, form.Required)
	}
	dst = append(dst, '{')
	for i, name := range names {
		if slices.Contains(names[:i], name) {
			continue
		}
		of, ok := s.Properties[name]
		if !ok {
			of = json.RawMessage("true")
		}
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(jsonscan.AppendQuoted(dst, name), ':')
		if dst, ok = e.value(dst, of, name, depth+1); !ok {
			return dst, false
		}
	}
	return append(dst, '}'), true
}

// array appends an array that shows at least one element, if it may have one.
func (e *exampler) array(dst []byte, s *shape, depth int) ([]byte, bool) {
	count := max(s.MinItems, 1)
	if s.MaxItems != nil {
		count = min(count, *s.MaxItems)
	}
	items := s.Items
	if items == nil {
		items = json.RawMessage("true")
	}
	dst = append(dst, '[')
	for i := range count {
		if i > 0 {
			dst = append(dst, ',')
		}
		var ok bool
		if dst, ok = e.value(dst, items, "", depth+1); !ok {
			return dst, false
		}
	}
	return append(dst, ']'), true
}

func (s *shape) number() float64 {
	f := 1.0
	if s.Minimum != nil {
		f = max(f, *s.Minimum)
	}
	if s.Above != nil && f <= *s.Above {
		f = math.Floor(*s.Above) + 1
	}
	if s.Maximum != nil {
		f = min(f, *s.Maximum)
	}
	if s.Below != nil && f >= *s.Below {
		f = math.Ceil(*s.Below) - 1
	}
	if s.Step != nil && *s.Step > 0 {
		f = math.Ceil(f / *s.Step) * *s.Step
	}
	return f
}

// formats are texts of the formats of JSON Schema.
var formats = map[string]string{
	"uuid": "123e4567-e89b-12d3-a456-426614174000", "date-time": "2026-01-31T12:00:00Z", "date": "2026-01-31",
	"time": "12:00:00Z", "duration": "PT1H", "email": "ada@example.org", "idn-email": "ada@example.org",
	"hostname": "example.org", "idn-hostname": "example.org", "ipv4": "192.0.2.1", "ipv6": "2001:db8::1",
	"uri": "https://example.org/", "uri-reference": "/notes/1", "iri": "https://example.org/", "iri-reference": "/notes/1",
	"uri-template": "/{id}", "json-pointer": "/a", "relative-json-pointer": "0", "regex": ".*",
}

// described finds the example that a description gives.
var described = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?:[Ee]\.g\.,?|[Ff]or example,?|[Ee]xample:)\s+(?:'([^']+)'|(\w[\w+.-]*://\S*[\w/]))`)
})

// text returns a text that the schema allows, or the word if the schema has nothing more specific.
func (s *shape) text(word string) (string, bool) {
	if known, ok := formats[s.Format]; ok {
		word = known
	} else if found := described().FindStringSubmatch(s.Description); found != nil {
		word = found[1] + found[2]
	} else if s.Pattern != "" {
		word = matching(s.Pattern, word)
	} else if word == "message" {
		word = "hello"
	}
	letters := []rune(word)
	if s.MinLength > maxExampleText {
		return "", false
	}
	for len(letters) < s.MinLength {
		letters = append(letters, 'x')
	}
	if s.MaxLength != nil && *s.MaxLength < len(letters) {
		letters = letters[:max(*s.MaxLength, 0)]
	}
	return string(letters), true
}

// matching guesses a text for a pattern: the pattern itself if it has no special characters,
// what it begins with, or otherwise. The example is validated, so a wrong guess does no harm.
func matching(pattern, otherwise string) string {
	plain := strings.TrimSuffix(strings.TrimPrefix(pattern, "^"), "$")
	if !strings.ContainsAny(plain, `\^$.|?*+()[]{}`) {
		return plain
	}
	if literal, _, _ := strings.Cut(plain, "["); literal != "" && !strings.ContainsAny(literal, `\^$.|?*+(){}`) {
		return literal + "a"
	}
	if strings.HasPrefix(pattern, "^[A-Z]") {
		return "Example.Text"
	}
	if strings.HasPrefix(pattern, "^[") {
		return "a"
	}
	return otherwise
}

// resolve finds the schema that a reference within the root names; nil if there is none.
func (e *exampler) resolve(ref string) (found json.RawMessage) {
	path, ok := strings.CutPrefix(ref, "#")
	if !ok {
		return nil
	}
	found = e.root
	for _, step := range strings.Split(path, "/")[1:] {
		step = strings.NewReplacer("~1", "/", "~0", "~").Replace(step)
		var members map[string]json.RawMessage
		var elements []json.RawMessage
		if json.Unmarshal(found, &members) == nil {
			found = members[step]
		} else if i, err := strconv.Atoi(step); err == nil && json.Unmarshal(found, &elements) == nil && 0 <= i && i < len(elements) {
			found = elements[i]
		} else {
			return nil
		}
	}
	return found
}
