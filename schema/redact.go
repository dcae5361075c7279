package schema

import (
	"encoding/json"
	"slices"

	"kernos/internal/jsonscan"
	"kernos/internal/secret"
)

// Redact returns the data without its secrets, and whether there were any. Data without
// secrets comes back as it is, and null is not a secret. The data must be valid JSON; it need
// not fit the schema: what stands where a secret belongs is taken for one.
func (s *Schema) Redact(data json.RawMessage) (json.RawMessage, bool) {
	p := s.secrets()
	if p == nil || len(data) == 0 {
		return data, false
	}
	var few [16]*secrets
	r := redactor{Rewriter: jsonscan.Rewrite(data), src: data}
	r.value(jsonscan.Space(data, 0), push(few[:0], 0, p), 0)
	return r.Result()
}

// redactor copies a value without its secrets.
type redactor struct {
	jsonscan.Rewriter
	src []byte
}

// value goes over the value at src[i] and returns the offset behind it. The end of about,
// from low, is about the value; what comes before is about the values around it and only
// lends the memory.
func (r *redactor) value(i int, about []*secrets, low int) int {
	for _, p := range about[low:] {
		if p.whole {
			end := jsonscan.Skip(r.src, i)
			if r.src[i] != 'n' && string(r.src[i:end]) != secret.RedactedJSON { // null, or redacted before
				r.Replace(i, end, secret.RedactedJSON)
			}
			return end
		}
	}
	if len(about) > low {
		switch r.src[i] {
		case '{':
			return r.Object(i, func(name []byte, value int) int {
				return r.value(value, pushMember(about, low, name), len(about))
			})
		case '[':
			return r.Array(i, func(n, value int) int {
				return r.value(value, pushElement(about, low, n), len(about))
			})
		}
	}
	return jsonscan.Skip(r.src, i)
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
