package secret

import (
	"slices"
	"strings"

	"kernos/internal/jsonscan"
)

// A Strictness is what counts as a credential in JSON data.
type Strictness struct {
	Place Location // names that denote a credential there count; Data for any data
	Clear bool     // every string counts that is not sealed, as in messages about encryption
	Lines bool     // within a text only a line counts that is a header
}

// Redact returns data, which must be valid JSON, without credentials, and whether there were
// any.
func (s Strictness) Redact(data []byte) ([]byte, bool) {
	r := redactor{Strictness: s, Rewriter: jsonscan.Rewrite(data), src: data, named: s.Place < Data || s.Place < Unnamed && MayHold(data)}
	r.value(jsonscan.Space(data, 0))
	return r.Result()
}

type redactor struct {
	Strictness
	jsonscan.Rewriter
	src   []byte
	named bool // the text may hold names of credentials
}

// value goes over the value at src[i] and returns the offset after it.
func (r *redactor) value(i int) int {
	switch r.src[i] {
	case '{':
		return r.object(i)
	case '[':
		return r.array(i)
	}
	end := jsonscan.Skip(r.src, i)
	if r.src[i] == '"' {
		r.text(i, end)
	}
	return end
}

// cut leaves out the value at src[i] and returns the offset after it. A schema and a
// boolean are about a secret and hold none.
func (r *redactor) cut(i int) int {
	if c := r.src[i]; c == 't' || c == 'f' || c == '{' && isSchema(r.src, i) {
		return r.value(i)
	}
	end := jsonscan.Skip(r.src, i)
	if string(r.src[i:end]) != RedactedJSON { // an earlier pass may have redacted the value
		r.Replace(i, end, RedactedJSON)
	}
	return end
}

// text leaves out what must not be kept of the string at src[i:end], wherever it stands.
func (r *redactor) text(i, end int) {
	text := jsonscan.Content(r.src[i:end])
	switch {
	case r.Clear && !IsSealed(text):
		r.cut(i)
	case !r.named:
	case r.Lines:
		if hasHeaderLine(text) {
			r.cut(i)
		}
	default:
		if kept, found := r.redactText(text); found {
			r.Replace(i, end, string(jsonscan.AppendQuoted(nil, string(kept))))
		}
	}
}

// redactText returns a text, which may be JSON itself, without credentials.
func (r *redactor) redactText(text []byte) ([]byte, bool) {
	if opensJSON(text) && (r.Place < Data || MayHold(text)) && jsonscan.Valid(text) {
		return Strictness{Place: r.Place}.Redact(text)
	}
	return redactText(text)
}

func opensJSON(text []byte) bool {
	i := jsonscan.Space(text, 0)
	return i < len(text) && (text[i] == '{' || text[i] == '[')
}

func (r *redactor) object(i int) int {
	pair := r.named && isPair(r.src, i)
	return r.Object(i, func(name []byte, value int) int {
		if r.named && Named(name, r.Place) || pair && !isNameOfName(name) {
			return r.cut(value)
		}
		return r.value(value)
	})
}

func (r *redactor) array(i int) int {
	header := false // the element before is the name of a header: ["Cookie","x"]
	return r.Array(i, func(_, value int) int {
		if header {
			header = false
			return r.cut(value)
		}
		end := r.value(value)
		header = r.named && r.src[value] == '"' && Named(jsonscan.Content(r.src[value:end]), Text)
		return end
	})
}

// isPair reports whether the object at b[i] names a credential and has its value, as in
// {"name":"Cookie","value":"x"}.
func isPair(b []byte, i int) bool {
	named, valued := false, false
	jsonscan.Members(b, i, func(name, value []byte) bool {
		content := jsonscan.Content(name)
		named = named || value[0] == '"' && isNameOfName(content) && Named(jsonscan.Content(value), Data)
		valued = valued || isAny(content, "value", "values", "val", "v")
		return !named || !valued
	})
	return named && valued
}

// isNameOfName reports whether a member of a pair holds the name and not the value.
func isNameOfName(name []byte) bool {
	return isAny(name, "name", "key", "header", "field", "n", "k")
}

// isSchema reports whether the object at b[i] is a JSON Schema.
func isSchema(b []byte, i int) bool {
	found := false
	jsonscan.Members(b, i, func(name, value []byte) bool {
		switch string(jsonscan.Content(name)) {
		case "type":
			found = value[0] == '"' && isAny(jsonscan.Content(value), "string", "object", "array", "number", "integer", "boolean", "null")
		case "$ref", "anyOf", "oneOf", "allOf":
			found = true
		}
		return !found
	})
	return found
}

func isAny(text []byte, words ...string) bool {
	if len(text) > len("boolean") {
		return false
	}
	return slices.ContainsFunc(words, func(word string) bool { return strings.EqualFold(string(text), word) })
}
