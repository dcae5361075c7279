package schema

import (
	"encoding/json"
	"slices"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"kernos/internal/jsonscan"
	"kernos/internal/secret"
)

// Sensitive reports whether some field of the schema must not be shown or kept: its schema
// has writeOnly, or the format password.
func (s *Schema) Sensitive() bool {
	s.sensitiveOnce.Do(func() {
		if !secret.MayBeMarkedJSON(s.JSON()) {
			return // nearly all schemas end here
		}
		full, err := s.library()
		s.sensitive = err != nil || full.secret
	})
	return s.sensitive
}

// Redact returns the data without its secrets, and whether there were any. Data without
// secrets comes back as it is, and null is not a secret. The data must be valid JSON; it need
// not fit the schema: what stands where a secret belongs is taken for one.
func (s *Schema) Redact(data json.RawMessage) (json.RawMessage, bool) {
	if !s.Sensitive() || len(data) == 0 {
		return data, false
	}
	full, err := s.library()
	if err != nil { // it isn't known which values are secrets
		return json.RawMessage(secret.RedactedJSON), true
	}
	r := redactor{Rewriter: jsonscan.Rewrite(data), src: data, full: full}
	r.value(jsonscan.Space(data, 0), r.push(nil, full.root))
	return r.Result()
}

// redactor copies a value without its secrets. Each value is looked at with all parts of the
// schema that are about it, however the value was meant.
type redactor struct {
	jsonscan.Rewriter
	src  []byte
	full *compiled
}

// value goes over the value at src[i], which some parts are about, and returns the offset
// after it.
func (r *redactor) value(i int, about []*jsonschema.Schema) int {
	for _, part := range about {
		if secretPart(part) {
			end := jsonscan.Skip(r.src, i)
			if r.src[i] != 'n' && string(r.src[i:end]) != secret.RedactedJSON { // null, or redacted before
				r.Replace(i, end, secret.RedactedJSON)
			}
			return end
		}
	}
	if len(about) > 0 {
		switch r.src[i] {
		case '{':
			return r.Object(i, func(name []byte, value int) int { return r.value(value, r.member(about, name)) })
		case '[':
			return r.Array(i, func(n, value int) int { return r.value(value, r.element(about, n)) })
		}
	}
	return jsonscan.Skip(r.src, i)
}

// push adds a part to those that are about a value, and all that it refers to, each once. Parts
// from which no secret can be reached are left out.
func (r *redactor) push(about []*jsonschema.Schema, part *jsonschema.Schema) []*jsonschema.Schema {
	parts := r.full.about[part]
	if len(about) == 0 {
		return parts // the usual case; the slice is full, so that append copies it
	}
	for _, p := range parts {
		if !slices.Contains(about, p) {
			about = append(about, p)
		}
	}
	return about
}

// member returns what is about a member of an object that some parts are about.
func (r *redactor) member(about []*jsonschema.Schema, name []byte) (inner []*jsonschema.Schema) {
	for _, part := range about {
		property, named := part.Properties[string(name)]
		inner = r.push(inner, property)
		for pattern, matching := range part.PatternProperties {
			if pattern.MatchString(string(name)) {
				inner, named = r.push(inner, matching), true
			}
		}
		if !named {
			inner = r.push(r.push(inner, asSchema(part.AdditionalProperties)), part.UnevaluatedProperties)
		}
	}
	return inner
}

// element returns what is about the element n of an array that some parts are about.
func (r *redactor) element(about []*jsonschema.Schema, n int) (inner []*jsonschema.Schema) {
	for _, part := range about {
		leading, _ := part.Items.([]*jsonschema.Schema)
		for _, list := range [][]*jsonschema.Schema{leading, part.PrefixItems} {
			if n < len(list) {
				inner = r.push(inner, list[n])
			}
		}
		for _, p := range [...]*jsonschema.Schema{asSchema(part.Items), part.Items2020, asSchema(part.AdditionalItems), part.Contains, part.UnevaluatedItems} {
			inner = r.push(inner, p)
		}
	}
	return inner
}
