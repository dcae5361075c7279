package journal

import (
	"encoding/json"
	"regexp"
	"strconv"
	"strings"
)

// A plan says where the secrets are in values that a schema describes.
type plan struct{ root *node }

// A node is one schema in a schema. Schemas may contain themselves, so nodes make a graph
// and are not merged: a value is looked at with all the nodes that are about it.
type node struct {
	secret     bool
	also       []*node // schemas that are about the same value: $ref, anyOf, …
	properties map[string]*node
	patterns   []pattern
	others     *node   // additionalProperties
	leading    []*node // prefixItems
	items      *node
}

// pattern is a schema of the members whose names match.
type pattern struct {
	names *regexp.Regexp // nil means that it can't be read here, and all do
	node  *node
}

// newPlan reads a schema. It returns nil if there is no secret in it.
func newPlan(text json.RawMessage) *plan {
	var root any
	if json.Unmarshal(text, &root) != nil {
		return &plan{root: &node{secret: true}} // nobody knows
	}
	r := planner{root: root, refs: map[string]*node{}}
	n := r.node(root)
	if !r.secrets {
		return nil
	}
	return &plan{root: n}
}

// planner makes a plan.
type planner struct {
	root    any
	refs    map[string]*node
	secrets bool
}

func (p *planner) node(schema any) *node {
	s, ok := schema.(map[string]any)
	if !ok {
		return nil // true, false, or a mistake
	}
	n := new(node)
	if s["writeOnly"] == true || s["format"] == "password" {
		n.secret, p.secrets = true, true
	}
	for _, keyword := range []string{"$ref", "$dynamicRef", "$recursiveRef"} {
		if ref, ok := s[keyword].(string); ok {
			n.and(p.ref(ref))
		}
	}
	for _, keyword := range []string{"anyOf", "oneOf", "allOf"} {
		for _, alternative := range elementsOf(s[keyword]) {
			n.and(p.node(alternative))
		}
	}
	for _, keyword := range []string{"if", "then", "else", "not"} {
		n.and(p.node(s[keyword]))
	}
	for _, keyword := range []string{"dependentSchemas", "dependencies"} {
		for _, dependent := range membersOf(s[keyword]) {
			n.and(p.node(dependent))
		}
	}
	for name, property := range membersOf(s["properties"]) {
		if n.properties == nil {
			n.properties = map[string]*node{}
		}
		n.properties[name] = p.node(property)
	}
	for names, property := range membersOf(s["patternProperties"]) {
		re, err := regexp.Compile(names)
		if err != nil {
			re = nil
		}
		if child := p.node(property); child != nil {
			n.patterns = append(n.patterns, pattern{names: re, node: child})
		}
	}
	n.others = p.either(s["additionalProperties"], s["unevaluatedProperties"])
	for _, item := range append(elementsOf(s["prefixItems"]), elementsOf(s["items"])...) {
		n.leading = append(n.leading, p.node(item))
	}
	n.items = p.either(s["items"], s["contains"], s["additionalItems"], s["unevaluatedItems"])
	return n
}

// either is about what any of some schemas is about.
func (p *planner) either(schemas ...any) *node {
	var n *node
	for _, s := range schemas {
		if child := p.node(s); child != nil {
			if n == nil {
				n = new(node)
			}
			n.and(child)
		}
	}
	return n
}

func (n *node) and(o *node) {
	if o != nil {
		n.also = append(n.also, o)
	}
}

// ref finds the schema that a reference means. One that leads nowhere is broken, and no
// value has passed it.
func (p *planner) ref(ref string) *node {
	if n, ok := p.refs[ref]; ok {
		return n
	}
	holder := new(node) // for a schema that refers to itself
	p.refs[ref] = holder
	holder.and(p.node(p.find(ref)))
	return holder
}

func (p *planner) find(ref string) any {
	path, ok := strings.CutPrefix(ref, "#")
	if !ok {
		return findID(p.root, "$id", ref)
	}
	if path != "" && path[0] != '/' {
		if found := findID(p.root, "$anchor", path); found != nil {
			return found
		}
		return findID(p.root, "$dynamicAnchor", path)
	}
	at := p.root
	for part := range strings.SplitSeq(strings.TrimPrefix(path, "/"), "/") {
		if path == "" {
			break
		}
		part = strings.NewReplacer("~1", "/", "~0", "~", "%25", "%", "%22", `"`).Replace(part)
		switch v := at.(type) {
		case map[string]any:
			at = v[part]
		case []any:
			i, err := strconv.Atoi(part)
			if err != nil || i < 0 || i >= len(v) {
				return nil
			}
			at = v[i]
		default:
			return nil
		}
	}
	return at
}

// findID finds the schema that has an id, wherever it stands.
func findID(v any, keyword, id string) any {
	switch v := v.(type) {
	case map[string]any:
		if v[keyword] == id {
			return v
		}
		for _, child := range v {
			if found := findID(child, keyword, id); found != nil {
				return found
			}
		}
	case []any:
		for _, child := range v {
			if found := findID(child, keyword, id); found != nil {
				return found
			}
		}
	}
	return nil
}

func elementsOf(v any) []any         { l, _ := v.([]any); return l }
func membersOf(v any) map[string]any { m, _ := v.(map[string]any); return m }

// start is the nodes that a whole value is looked at with.
func (p *plan) start() []*node {
	if p == nil {
		return nil
	}
	return expand(nil, p.root)
}

// expand adds a node and all that are about the same value.
func expand(at []*node, n *node) []*node {
	if n == nil {
		return at
	}
	for _, o := range at {
		if o == n {
			return at
		}
	}
	at = append(at, n)
	for _, o := range n.also {
		at = expand(at, o)
	}
	return at
}

// members is the nodes for a member of an object that some nodes are about.
func members(at []*node, name string) []*node {
	var next []*node
	for _, n := range at {
		property, named := n.properties[name]
		next = expand(next, property)
		for _, p := range n.patterns {
			if p.names == nil || p.names.MatchString(name) {
				next, named = expand(next, p.node), named || p.names != nil
			}
		}
		if !named {
			next = expand(next, n.others)
		}
	}
	return next
}

// elements is the nodes for an element of an array that some nodes are about.
func elements(at []*node, i int) []*node {
	var next []*node
	for _, n := range at {
		if i < len(n.leading) {
			next = expand(next, n.leading[i])
		}
		next = expand(next, n.items)
	}
	return next
}
