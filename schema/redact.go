package schema

import (
	"encoding/json"
	"strings"

	"kernos/internal/jsonscan"
)

// Redacted is what stands in the place of a secret.
const Redacted = `"[redacted]"`

// Sensitive reports whether some field of the schema must not be shown or kept: its schema
// says writeOnly, or that its format is a password.
func (s *Schema) Sensitive() bool { return s.secrets() != nil }

// Redact returns the data without its secrets, and whether there were any. Data without
// secrets comes back as it is. The data must be valid JSON; it need not fit the schema:
// what stands where a secret belongs is taken for one.
func (s *Schema) Redact(data json.RawMessage) (json.RawMessage, bool) {
	p := s.secrets()
	if p == nil || len(data) == 0 {
		return data, false
	}
	r := redactor{}
	out := r.append(make([]byte, 0, len(data)+32), data[jsonscan.Space(data, 0):], []*secrets{p})
	if !r.found {
		return data, false
	}
	return out, true
}

// secrets says where in a value the secrets are. Nil means nowhere.
type secrets struct {
	whole      bool
	properties map[string]*secrets
	additional *secrets   // members that properties does not name
	items      *secrets   // elements
	also       []*secrets // of the same value
}

func (s *Schema) secrets() *secrets {
	s.secretsOnce.Do(func() {
		text := s.JSON()
		if !strings.Contains(string(text), "writeOnly") && !strings.Contains(string(text), "password") {
			return
		}
		c := secretsCompiler{root: text, refs: make(map[string]*secrets)}
		if p := c.compile(text); p.leads(make(map[*secrets]bool)) {
			s.secretFields = p
		}
	})
	return s.secretFields
}

// secretsCompiler reads a schema. References may go in circles, so a plan may, too.
type secretsCompiler struct {
	root json.RawMessage
	refs map[string]*secrets
}

func (c *secretsCompiler) compile(text []byte) *secrets {
	p := new(secrets)
	c.into(p, text)
	return p
}

func (c *secretsCompiler) into(p *secrets, text []byte) {
	text = text[jsonscan.Space(text, 0):]
	if text[0] != '{' {
		return // true or false
	}
	jsonscan.Members(text, 0, func(token, value []byte) bool {
		switch jsonscan.Unquote(token) {
		case "writeOnly":
			p.whole = p.whole || string(value) == "true"
		case "format":
			p.whole = p.whole || string(value) == `"password"`
		case "properties", "patternProperties":
			c.properties(p, jsonscan.Unquote(token), value)
		case "additionalProperties", "unevaluatedProperties":
			p.additional = c.both(p.additional, value)
		case "items", "additionalItems", "prefixItems", "contains", "unevaluatedItems":
			c.each(value, func(sub []byte) { p.items = c.both(p.items, sub) })
		case "allOf", "anyOf", "oneOf", "if", "then", "else", "not":
			c.each(value, func(sub []byte) { p.also = append(p.also, c.compile(sub)) })
		case "dependentSchemas":
			if value[0] == '{' {
				jsonscan.Members(value, 0, func(_, sub []byte) bool {
					p.also = append(p.also, c.compile(sub))
					return true
				})
			}
		case "$ref", "$dynamicRef":
			if target := c.ref(jsonscan.Unquote(value)); target != nil {
				p.also = append(p.also, target)
			}
		}
		return true
	})
}

func (c *secretsCompiler) properties(p *secrets, which string, value []byte) {
	if value[0] != '{' {
		return
	}
	jsonscan.Members(value, 0, func(name, sub []byte) bool {
		if which == "patternProperties" { // rare: any name may match
			p.additional = c.both(p.additional, sub)
			return true
		}
		if p.properties == nil {
			p.properties = make(map[string]*secrets)
		}
		p.properties[jsonscan.Unquote(name)] = c.compile(sub)
		return true
	})
}

func (c *secretsCompiler) both(p *secrets, text []byte) *secrets {
	if p == nil {
		p = new(secrets)
	}
	c.into(p, text)
	return p
}

// each visits a schema, or every schema of a list.
func (c *secretsCompiler) each(value []byte, visit func([]byte)) {
	if value[0] != '[' {
		visit(value)
		return
	}
	jsonscan.Elements(value, 0, visit)
}

// ref finds what a reference within the document points to.
func (c *secretsCompiler) ref(ref string) *secrets {
	if p, ok := c.refs[ref]; ok {
		return p
	}
	pointer, ok := strings.CutPrefix(ref, "#")
	if !ok {
		return nil
	}
	text := []byte(c.root)
	for _, step := range strings.Split(strings.TrimPrefix(pointer, "/"), "/") {
		if pointer == "" {
			break
		}
		step = strings.NewReplacer("~1", "/", "~0", "~").Replace(step)
		var found []byte
		if text = text[jsonscan.Space(text, 0):]; text[0] == '{' {
			jsonscan.Members(text, 0, func(name, value []byte) bool {
				if jsonscan.Unquote(name) == step {
					found = value
				}
				return found == nil
			})
		}
		if found == nil {
			return nil
		}
		text = found
	}
	p := new(secrets)
	c.refs[ref] = p
	c.into(p, text)
	return p
}

// leads reports whether any secret is marked.
func (p *secrets) leads(seen map[*secrets]bool) bool {
	if p == nil || seen[p] {
		return false
	}
	seen[p] = true
	if p.whole || p.additional.leads(seen) || p.items.leads(seen) {
		return true
	}
	for _, sub := range p.properties {
		if sub.leads(seen) {
			return true
		}
	}
	for _, sub := range p.also {
		if sub.leads(seen) {
			return true
		}
	}
	return false
}

// redactor writes a value without what its plans mark.
type redactor struct{ found bool }

func (r *redactor) append(dst, value []byte, plans []*secrets) []byte {
	plans = flatten(plans)
	for _, p := range plans {
		if p.whole {
			if string(value) != "null" {
				r.found = true
			}
			return append(dst, Redacted...)
		}
	}
	if len(plans) == 0 || value[0] != '{' && value[0] != '[' {
		return append(dst, value...)
	}
	var inner []*secrets
	if value[0] == '[' {
		for _, p := range plans {
			if p.items != nil {
				inner = append(inner, p.items)
			}
		}
		dst = append(dst, '[')
		first := true
		jsonscan.Elements(value, 0, func(e []byte) {
			if !first {
				dst = append(dst, ',')
			}
			first = false
			dst = r.append(dst, e, inner)
		})
		return append(dst, ']')
	}
	dst = append(dst, '{')
	first := true
	jsonscan.Members(value, 0, func(token, member []byte) bool {
		if !first {
			dst = append(dst, ',')
		}
		first = false
		inner = inner[:0:0]
		name := jsonscan.Unquote(token)
		for _, p := range plans {
			if sub, ok := p.properties[name]; ok {
				inner = append(inner, sub)
			} else if p.additional != nil {
				inner = append(inner, p.additional)
			}
		}
		dst = append(append(dst, token...), ':')
		dst = r.append(dst, member, inner)
		return true
	})
	return append(dst, '}')
}

// flatten adds what else is said of the same value, each plan once.
func flatten(plans []*secrets) []*secrets {
	for i := 0; i < len(plans); i++ {
	next:
		for _, p := range plans[i].also {
			for _, q := range plans {
				if p == q {
					continue next
				}
			}
			plans = append(plans[:len(plans):len(plans)], p)
		}
	}
	return plans
}
