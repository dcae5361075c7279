package rpc

import (
	"bytes"
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"strings"

	"kernos/internal/jsonscan"
	"kernos/schema"
)

// Example makes a value that fits a schema: the fields that are required, with values that
// look like what is asked for. It reports false if it can't make one; what it makes has been
// checked.
func Example(s *schema.Schema) (json.RawMessage, bool) {
	text := s.JSON()
	e := exampler{root: text}
	value, ok := e.value(nil, text, 0)
	if !ok || s.Validate(value) != nil {
		return nil, false
	}
	return value, true
}

// exampler makes an example for one schema.
type exampler struct{ root []byte }

// maxExample is how deep an example goes, and how many elements its lists have.
const maxExample = 16

// value appends an example for the schema in text, which stands in root.
func (e *exampler) value(dst, text []byte, depth int) ([]byte, bool) {
	if depth > maxExample || len(text) == 0 {
		return dst, false
	}
	if text[0] != '{' { // true, or false
		return append(dst, `"…"`...), text[0] == 't'
	}
	for _, keyword := range []string{"const", "default"} {
		if v := member(text, keyword); v != nil {
			return append(dst, v...), true
		}
	}
	for _, keyword := range []string{"examples", "enum"} {
		if v := first(member(text, keyword)); v != nil {
			return append(dst, v...), true
		}
	}
	if ref := member(text, "$ref"); ref != nil {
		return e.value(dst, e.resolve(jsonscan.Unquote(ref)), depth+1)
	}
	for _, keyword := range []string{"oneOf", "anyOf", "allOf"} {
		if list := member(text, keyword); list != nil && member(text, "properties") == nil {
			return e.alternative(dst, list, depth)
		}
	}
	switch e.kind(text) {
	case "object":
		return e.object(dst, text, depth)
	case "array":
		return e.array(dst, text, depth)
	case "integer", "number":
		return e.number(dst, text)
	case "boolean":
		return append(dst, "true"...), true
	case "null":
		return append(dst, "null"...), true
	}
	return e.text(dst, text)
}

// kind is the type of the values, as far as the schema says.
func (e *exampler) kind(text []byte) string {
	t := member(text, "type")
	if len(t) > 0 && t[0] == '[' {
		kinds := []string{}
		elements(t, func(v []byte) bool {
			kinds = append(kinds, jsonscan.Unquote(v))
			return true
		})
		if i := slices.IndexFunc(kinds, func(k string) bool { return k != "null" }); i >= 0 {
			return kinds[i]
		}
		return "null"
	}
	if len(t) > 0 {
		return jsonscan.Unquote(t)
	}
	for keyword, kind := range map[string]string{"properties": "object", "required": "object", "items": "array", "minimum": "number", "multipleOf": "number"} {
		if member(text, keyword) != nil {
			return kind
		}
	}
	return "string"
}

// alternative is an example for the first of a list that has one.
func (e *exampler) alternative(dst, list []byte, depth int) (out []byte, ok bool) {
	out = dst
	if len(list) == 0 || list[0] != '[' {
		return dst, false
	}
	elements(list, func(v []byte) bool {
		out, ok = e.value(dst, v, depth+1)
		return !ok
	})
	return out, ok
}

func (e *exampler) object(dst, text []byte, depth int) ([]byte, bool) {
	properties := member(text, "properties")
	dst = append(dst, '{')
	ok, began := true, false
	if required := member(text, "required"); len(required) > 0 && required[0] == '[' {
		elements(required, func(token []byte) bool {
			name := jsonscan.Unquote(token)
			of := member(properties, name)
			if of == nil {
				of = []byte("true")
			}
			if began {
				dst = append(dst, ',')
			}
			began = true
			dst, ok = e.value(append(append(dst, token...), ':'), of, depth+1)
			return ok
		})
	}
	return append(dst, '}'), ok
}

func (e *exampler) array(dst, text []byte, depth int) ([]byte, bool) {
	least, _ := integer(member(text, "minItems"))
	items := member(text, "items")
	if items == nil {
		items = []byte("true")
	}
	if least > maxExample {
		return dst, false
	}
	dst = append(dst, '[')
	for i := range least {
		if i > 0 {
			dst = append(dst, ',')
		}
		var ok bool
		if dst, ok = e.value(dst, items, depth+1); !ok {
			return dst, false
		}
	}
	return append(dst, ']'), true
}

func (e *exampler) number(dst, text []byte) ([]byte, bool) {
	bound := func(keyword string) (float64, bool) {
		f, err := strconv.ParseFloat(string(member(text, keyword)), 64)
		return f, err == nil
	}
	f := 1.0
	if low, ok := bound("minimum"); ok {
		f = max(f, low)
	}
	if low, ok := bound("exclusiveMinimum"); ok && f <= low {
		f = math.Floor(low) + 1
	}
	if high, ok := bound("maximum"); ok {
		f = min(f, high)
	}
	if high, ok := bound("exclusiveMaximum"); ok && f >= high {
		f = math.Ceil(high) - 1
	}
	if step, ok := bound("multipleOf"); ok && step > 0 {
		f = math.Ceil(f/step) * step
	}
	return strconv.AppendFloat(dst, f, 'f', -1, 64), true
}

// formats are texts of the formats of JSON Schema.
var formats = map[string]string{
	"uuid": "123e4567-e89b-12d3-a456-426614174000", "date-time": "2025-01-31T12:00:00Z", "date": "2025-01-31",
	"time": "12:00:00Z", "duration": "PT5M", "email": "somebody@example.org", "idn-email": "somebody@example.org",
	"hostname": "example.org", "idn-hostname": "example.org", "ipv4": "192.0.2.1", "ipv6": "2001:db8::1",
	"uri": "https://example.org/", "uri-reference": "/", "iri": "https://example.org/", "iri-reference": "/",
	"uri-template": "/{id}", "json-pointer": "/a", "relative-json-pointer": "0", "regex": ".*",
}

func (e *exampler) text(dst, text []byte) ([]byte, bool) {
	word := "text"
	if f := member(text, "format"); f != nil {
		if known, ok := formats[jsonscan.Unquote(f)]; ok {
			word = known
		}
	}
	if p := member(text, "pattern"); p != nil {
		word = matching(jsonscan.Unquote(p), word)
	}
	if least, ok := integer(member(text, "minLength")); ok {
		if least > 1<<10 {
			return dst, false
		}
		for len(word) < least {
			word += "x"
		}
	}
	if most, ok := integer(member(text, "maxLength")); ok && most < len(word) {
		word = word[:max(most, 0)]
	}
	return jsonscan.AppendQuoted(dst, word), true
}

// matching guesses a text for a pattern: what stands in it without signs, or the text that
// was meant anyway. The example is checked, so a wrong guess does no harm.
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
func (e *exampler) resolve(ref string) []byte {
	path, ok := strings.CutPrefix(ref, "#")
	if !ok {
		return nil
	}
	at := e.root
	for _, step := range strings.Split(path, "/")[1:] {
		step = strings.NewReplacer("~1", "/", "~0", "~").Replace(step)
		if len(at) > 0 && at[0] == '[' {
			i, err := strconv.Atoi(step)
			if err != nil {
				return nil
			}
			at = element(at, i)
			continue
		}
		at = member(at, step)
	}
	return at
}

func element(list []byte, index int) (found []byte) {
	i := 0
	elements(list, func(v []byte) bool {
		if i == index {
			found = v
		}
		i++
		return found == nil
	})
	return found
}

// first returns the first element of a list, or nil.
func first(list []byte) []byte {
	if len(list) == 0 || list[0] != '[' {
		return nil
	}
	return bytes.Clone(element(list, 0))
}

func integer(text []byte) (int, bool) {
	n, err := strconv.Atoi(string(text))
	return n, err == nil
}
