package schema

import (
	"bytes"
	"encoding/json"
	"slices"

	"kernos/internal/jsonscan"
)

// Redacted is what stands in the place of a secret.
const Redacted = `"[redacted]"`

// Redact returns the data without its secrets, and whether there were any. Data without
// secrets comes back as it is; null is no secret. The data must be valid JSON; it need
// not fit the schema: what stands where a secret belongs is taken for one.
func (s *Schema) Redact(data json.RawMessage) (json.RawMessage, bool) {
	p := s.secrets()
	if p == nil || len(data) == 0 {
		return data, false
	}
	var few [16]*secrets
	r := redactor{src: data}
	r.value(jsonscan.Space(data, 0), push(few[:0], 0, p), 0)
	if r.dst == nil {
		return data, false
	}
	return append(r.dst, data[r.copied:]...), true
}

// redactor copies a value without its secrets.
type redactor struct {
	src, dst []byte
	copied   int // how much of src is in dst
}

// value goes over the value at src[i] and returns the offset behind it. The end of about,
// from low, is about the value; what comes before is about those around it and only
// lends the memory.
func (r *redactor) value(i int, about []*secrets, low int) int {
	for _, p := range about[low:] {
		if p.whole {
			return r.cut(i)
		}
	}
	if len(about) == low {
		return jsonscan.Skip(r.src, i)
	}
	switch r.src[i] {
	case '{':
		i = jsonscan.Space(r.src, i+1)
		for r.src[i] != '}' {
			end := jsonscan.Skip(r.src, i)
			member := pushMember(about, low, unquoted(r.src[i:end]))
			i = jsonscan.Space(r.src, jsonscan.Space(r.src, end)+1)
			i = r.next(r.value(i, member, len(about)))
		}
		return i + 1
	case '[':
		i = jsonscan.Space(r.src, i+1)
		for n := 0; r.src[i] != ']'; n++ {
			i = r.next(r.value(i, pushElement(about, low, n), len(about)))
		}
		return i + 1
	}
	return jsonscan.Skip(r.src, i)
}

// next passes over what stands between two values, and before a bracket.
func (r *redactor) next(i int) int {
	i = jsonscan.Space(r.src, i)
	if r.src[i] == ',' {
		return jsonscan.Space(r.src, i+1)
	}
	return i
}

// cut leaves out the value at src[i] and returns the offset behind it.
func (r *redactor) cut(i int) int {
	end := jsonscan.Skip(r.src, i)
	if r.src[i] == 'n' { // null
		return end
	}
	if r.dst == nil {
		r.dst = make([]byte, 0, len(r.src)+32)
	}
	r.dst = append(append(r.dst, r.src[r.copied:i]...), Redacted...)
	r.copied = end
	return end
}

// push adds p and all that is about the same value to about[low:], each once.
func push(about []*secrets, low int, p *secrets) []*secrets {
	if p == nil || slices.Contains(about[low:], p) {
		return about
	}
	about = append(about, p)
	for _, o := range p.also {
		about = push(about, low, o)
	}
	return about
}

// pushMember adds what is about a member of an object that about[low:] is about.
func pushMember(about []*secrets, low int, name []byte) []*secrets {
	top := len(about)
	for _, p := range about[low:top] {
		property, named := p.properties[string(name)]
		about = push(about, top, property)
		for _, pattern := range p.patterns {
			if pattern.names == nil || pattern.names.Match(name) {
				about = push(about, top, pattern.about)
				named = named || pattern.names != nil
			}
		}
		if !named {
			for _, other := range p.others {
				about = push(about, top, other)
			}
		}
	}
	return about
}

// pushElement adds what is about the element i of an array that about[low:] is about.
func pushElement(about []*secrets, low, i int) []*secrets {
	top := len(about)
	for _, p := range about[low:top] {
		for _, leading := range p.leading {
			if i < len(leading) {
				about = push(about, top, leading[i])
			}
		}
		for _, item := range p.items {
			about = push(about, top, item)
		}
	}
	return about
}

// unquoted is the content of a string; part of it if it has no escapes.
func unquoted(token []byte) []byte {
	if bytes.IndexByte(token, '\\') < 0 {
		return token[1 : len(token)-1]
	}
	return []byte(jsonscan.Unquote(token))
}
