package schema

import (
	"bytes"
	"encoding/json"
	"net/url"
	"regexp"
	"strconv"
	"strings"
)

// Sensitive reports whether some field of the schema must not be shown or kept: its schema
// says writeOnly, or that its format is a password.
func (s *Schema) Sensitive() bool { return s.secrets() != nil }

func (s *Schema) secrets() *secrets {
	s.secretsOnce.Do(func() { s.secretFields = findSecrets(s.JSON()) })
	return s.secretFields
}

// secrets says where in a value the secrets are. Schemas may contain themselves, so these
// make a graph and are not merged: a value is looked at with all that are about it. Nil
// says nothing.
type secrets struct {
	whole      bool
	also       []*secrets // about the same value: $ref, anyOf, …
	properties map[string]*secrets
	patterns   []pattern
	others     []*secrets   // about members that are not named above
	leading    [][]*secrets // about elements by their place; a list for each keyword
	items      []*secrets   // about all elements
}

// pattern is about the members whose names match.
type pattern struct {
	names *regexp.Regexp // nil means that it can't be read here, and all do
	about *secrets
}

// findSecrets reads a schema. It returns nil if nothing in it is marked.
func findSecrets(text json.RawMessage) *secrets {
	if !bytes.Contains(text, []byte("writeOnly")) && !bytes.Contains(text, []byte("password")) && bytes.IndexByte(text, '\\') < 0 {
		return nil // as in nearly all schemas
	}
	var root any
	if json.Unmarshal(text, &root) != nil {
		return &secrets{whole: true} // it is unknown
	}
	f := finder{values: make(map[string]any), anchors: make(map[string][]string), made: make(map[string]*secrets)}
	f.resources = []resource{{}}
	f.visit("", root)
	if p := f.at(""); f.found {
		return p
	}
	return nil
}

// finder finds the secrets of a schema. It knows each part of the schema by its path, a
// JSON pointer.
type finder struct {
	values    map[string]any
	resources []resource
	anchors   map[string][]string // paths by name
	made      map[string]*secrets
	found     bool
}

// resource is a schema that references may start from: the root, or one with an id.
type resource struct{ path, id string }

func (f *finder) visit(path string, value any) {
	f.values[path] = value
	switch v := value.(type) {
	case map[string]any:
		for _, keyword := range []string{"$anchor", "$dynamicAnchor"} {
			if name, ok := v[keyword].(string); ok {
				f.anchors[name] = append(f.anchors[name], path)
			}
		}
		for _, keyword := range []string{"$id", "id"} {
			if id, ok := v[keyword].(string); ok {
				id, name, _ := strings.Cut(id, "#")
				if name != "" { // an anchor of older drafts
					f.anchors[name] = append(f.anchors[name], path)
				}
				f.resources = append(f.resources, resource{path, id})
			}
		}
		for name, member := range v {
			f.visit(step(path, name), member)
		}
	case []any:
		for i, element := range v {
			f.visit(path+"/"+strconv.Itoa(i), element)
		}
	}
}

var escaper = strings.NewReplacer("~", "~0", "/", "~1")

func step(path, name string) string { return path + "/" + escaper.Replace(name) }

// at is about the values of the schema at a path.
func (f *finder) at(path string) *secrets {
	if p, ok := f.made[path]; ok {
		return p
	}
	s, ok := f.values[path].(map[string]any)
	if !ok {
		return nil // true, false, or a mistake
	}
	p := new(secrets)
	f.made[path] = p
	if s["writeOnly"] == true || s["format"] == "password" {
		p.whole, f.found = true, true
	}
	for _, keyword := range []string{"$ref", "$dynamicRef", "$recursiveRef"} {
		if ref, ok := s[keyword].(string); ok {
			p.also = append(p.also, f.ref(ref)...)
		}
	}
	for _, keyword := range []string{"allOf", "anyOf", "oneOf"} {
		p.also = append(p.also, f.list(path+"/"+keyword)...)
	}
	p.also = append(p.also, f.any(path, "if", "then", "else", "not")...)
	for _, keyword := range []string{"dependentSchemas", "dependencies"} {
		for _, about := range f.members(path + "/" + keyword) {
			p.also = append(p.also, about)
		}
	}
	p.properties = f.members(path + "/properties")
	for names, about := range f.members(path + "/patternProperties") {
		re, err := regexp.Compile(names)
		if err != nil {
			re = nil
		}
		p.patterns = append(p.patterns, pattern{re, about})
	}
	p.others = f.any(path, "additionalProperties", "unevaluatedProperties")
	for _, keyword := range []string{"prefixItems", "items"} {
		if l := f.list(path + "/" + keyword); l != nil {
			p.leading = append(p.leading, l)
		}
	}
	p.items = f.any(path, "items", "additionalItems", "contains", "unevaluatedItems")
	return p
}

// any is about the values of the schemas that some keywords have.
func (f *finder) any(path string, keywords ...string) (all []*secrets) {
	for _, keyword := range keywords {
		if p := f.at(path + "/" + keyword); p != nil {
			all = append(all, p)
		}
	}
	return all
}

func (f *finder) list(path string) (all []*secrets) {
	schemas, _ := f.values[path].([]any)
	for i := range schemas {
		all = append(all, f.at(path+"/"+strconv.Itoa(i)))
	}
	return all
}

func (f *finder) members(path string) map[string]*secrets {
	schemas, _ := f.values[path].(map[string]any)
	if len(schemas) == 0 {
		return nil
	}
	all := make(map[string]*secrets, len(schemas))
	for name := range schemas {
		all[name] = f.at(step(path, name))
	}
	return all
}

// ref is about what a reference means. Where a schema has ids in it, that depends on where
// the reference stands and, if it is dynamic, on the value; what is returned is about
// everything that it may mean.
func (f *finder) ref(ref string) (all []*secrets) {
	id, fragment, _ := strings.Cut(ref, "#")
	if plain, err := url.PathUnescape(fragment); err == nil {
		fragment = plain
	}
	var paths []string
	if fragment != "" && fragment[0] != '/' {
		paths = f.anchors[fragment]
	} else {
		for _, r := range f.named(id) {
			paths = append(paths, r.path+fragment)
		}
	}
	meant := false
	for _, path := range paths {
		if _, ok := f.values[path]; ok {
			meant = true
			all = append(all, f.at(path))
		}
	}
	if !meant { // the library can follow it, since it took the schema; this can't
		f.found = true
		return []*secrets{{whole: true}}
	}
	return all
}

// named lists the resources that an id may mean.
func (f *finder) named(id string) (all []resource) {
	for _, r := range f.resources {
		if id != "" && r.id == id {
			all = append(all, r)
		}
	}
	if all == nil {
		return f.resources
	}
	return all
}
