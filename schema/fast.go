package schema

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"kernos/internal/jsonscan"
	"kernos/internal/when"
)

// node is the compiled form of a plain schema: one that uses only the keywords
// below, which is what Go types give. It looks at JSON text in place.
type node struct {
	kinds int // bits of the types that are allowed

	enum             []string // allowed strings; nil means any
	minRunes         int
	maxRunes         int
	minimum, maximum float64 // whole numbers within ±2^53, or infinite
	format           string  // of texts that are times or lengths of time: see package when; "" for other texts

	items              *node
	minItems, maxItems int

	properties []property
	required   uint64 // bits of the properties that must be there

	// Bits of the properties that one form requires: exactly one of the forms must fit, or at
	// least one. Nil means that there are no forms.
	forms   []uint64
	exactly bool

	additional *node // schema of other members; nil means that there may be none
}

type property struct {
	name string
	*node
}

// The types of JSON Schema, as bits.
const (
	isNull = 1 << iota
	isBoolean
	isInteger
	isNumber
	isString
	isArray
	isObject
	isAnything = 1<<iota - 1
)

var kindBits = map[string]int{
	"null": isNull, "boolean": isBoolean, "integer": isInteger, "number": isNumber | isInteger,
	"string": isString, "array": isArray, "object": isObject,
}

var anything = &node{
	kinds:    isAnything,
	maxRunes: math.MaxInt, minimum: math.Inf(-1), maximum: math.Inf(1), maxItems: math.MaxInt,
}

// nothing accepts no value. A property that is not plain has it: objects without that property
// take the fast path, the others are left to the library.
var nothing = &node{}

// plain compiles the parts of a plain schema.
type plain struct {
	root  []byte
	nodes map[string]*node // definitions by name; nil while one is compiled
}

// node compiles a part, or returns nil if it is not plain.
func (p *plain) node(text []byte) *node {
	switch string(text) {
	case "true", "{}":
		return anything
	}
	if text[0] != '{' {
		return nil
	}
	n := *anything
	n.additional, n.items = anything, anything
	says := false
	ok := true
	var required, ref, forms []byte
	jsonscan.Members(text, 0, func(name, value []byte) bool {
		keyword := jsonscan.Unquote(name)
		switch keyword {
		case "title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly", "$comment", "$defs":
			return true // these keywords check nothing
		case "$ref":
			ref = value
			return true
		case "required":
			required = value
		case "oneOf", "anyOf":
			ok = forms == nil
			forms, n.exactly = value, keyword == "oneOf"
		default:
			ok = p.keyword(&n, keyword, value)
		}
		says = true
		return ok
	})
	if ok && required != nil {
		n.required, ok = n.bits(required)
	}
	if ok && forms != nil {
		ok = n.chooseType(forms) || n.choose(forms)
	}
	switch {
	case !ok, ref != nil && says:
		return nil
	case ref != nil:
		return p.definition(ref)
	case !says:
		return anything
	}
	return &n
}

// definitionPrefix begins references to the definitions of a schema.
const definitionPrefix = "#/$defs/"

// definition compiles what a reference names, or returns nil if that isn't a definition of the
// schema, is not plain, or contains itself.
func (p *plain) definition(ref []byte) *node {
	if ref[0] != '"' {
		return nil
	}
	name, ok := strings.CutPrefix(jsonscan.Unquote(ref), definitionPrefix)
	if !ok || strings.ContainsAny(name, "/~%") {
		return nil
	}
	if n, begun := p.nodes[name]; begun {
		return n
	}
	text := jsonscan.Member(jsonscan.Member(p.root, "$defs"), name)
	if text == nil {
		return nil
	}
	if p.nodes == nil {
		p.nodes = make(map[string]*node)
	}
	p.nodes[name] = nil
	p.nodes[name] = p.node(text)
	return p.nodes[name]
}

// keyword takes one keyword in. It reports whether the fast path knows it.
func (p *plain) keyword(n *node, name string, value []byte) bool {
	switch name {
	case "type":
		if value[0] != '"' {
			return false
		}
		n.kinds = kindBits[jsonscan.Unquote(value)]
		return n.kinds != 0
	case "enum":
		list, ok := stringList(value)
		n.enum = list
		return ok && n.enum != nil
	case "minLength":
		return bound(value, &n.minRunes)
	case "maxLength":
		return bound(value, &n.maxRunes)
	case "minItems":
		return bound(value, &n.minItems)
	case "maxItems":
		return bound(value, &n.maxItems)
	case "minimum":
		return integerBound(value, &n.minimum)
	case "maximum":
		return integerBound(value, &n.maximum)
	case "format":
		if name := jsonscan.Unquote(value); name == when.FormatTime || name == when.FormatSpan {
			n.format = name
			return true
		}
		return string(value) == `"password"` // "password" is a hint for forms, and allows any text
	case "items":
		n.items = p.node(value)
		return n.items != nil
	case "additionalProperties":
		if string(value) == "false" {
			n.additional = nil
			return true
		}
		n.additional = p.node(value)
		return n.additional != nil
	case "properties":
		jsonscan.Members(value, 0, func(name, value []byte) bool {
			inner := p.node(value)
			if inner == nil {
				inner = nothing
			}
			n.properties = append(n.properties, property{jsonscan.Unquote(name), inner})
			return true
		})
		return len(n.properties) <= 64
	}
	return false
}

// bits returns the properties that a list names. A name without a property is left to the
// library.
func (n *node) bits(list []byte) (bits uint64, ok bool) {
	names, ok := stringList(list)
	for _, name := range names {
		i := n.property(name)
		if i < 0 {
			return 0, false
		}
		bits |= 1 << i
	}
	return bits, ok
}

// chooseType notes forms that are one type each, and restrict nothing else. Where exactly one must fit,
// no value may be of two of the types.
func (n *node) chooseType(forms []byte) (ok bool) {
	if forms[0] != '[' {
		return false
	}
	kinds := 0
	ok = true
	jsonscan.Elements(forms, 0, func(form []byte) bool {
		if ok = form[0] == '{'; !ok {
			return false
		}
		bits := 0
		jsonscan.Members(form, 0, func(name, value []byte) bool {
			if ok = jsonscan.Unquote(name) == "type" && value[0] == '"'; ok {
				bits = kindBits[jsonscan.Unquote(value)]
			}
			return ok
		})
		ok = ok && bits != 0 && (kinds&bits == 0 || !n.exactly)
		kinds |= bits
		return ok
	})
	if ok = ok && kinds&n.kinds != 0; ok {
		n.kinds &= kinds
	}
	return ok
}

// choose notes forms of objects that require properties and restrict nothing else.
func (n *node) choose(forms []byte) (ok bool) {
	if forms[0] != '[' || n.kinds != isObject {
		return false
	}
	ok = true
	jsonscan.Elements(forms, 0, func(form []byte) bool {
		if ok = form[0] == '{'; !ok {
			return false
		}
		var bits uint64
		jsonscan.Members(form, 0, func(name, value []byte) bool {
			switch jsonscan.Unquote(name) {
			case "title", "description":
			case "required":
				bits, ok = n.bits(value)
			default:
				ok = false
			}
			return ok
		})
		n.forms = append(n.forms, bits)
		return ok
	})
	return ok && len(n.forms) > 0
}

// chosen reports whether the properties that an object has fit the forms.
func (n *node) chosen(seen uint64) bool {
	if n.forms == nil {
		return true
	}
	fit := 0
	for _, form := range n.forms {
		if seen&form == form {
			fit++
		}
	}
	return fit == 1 || fit > 1 && !n.exactly
}

func (n *node) property(name string) int {
	return slices.IndexFunc(n.properties, func(p property) bool { return p.name == name })
}

func stringList(text []byte) (list []string, ok bool) {
	if ok = text[0] == '['; !ok {
		return nil, false
	}
	jsonscan.Elements(text, 0, func(value []byte) bool {
		if ok = value[0] == '"'; ok {
			list = append(list, jsonscan.Unquote(value))
		}
		return ok
	})
	return list, ok
}

func bound(text []byte, n *int) bool {
	v, err := strconv.Atoi(string(text))
	*n = v
	return err == nil && v >= 0
}

// integerBound reads a bound for numbers. Whole ones within 2^53 compare exactly as
// floating-point numbers.
func integerBound(text []byte, n *float64) bool {
	v, err := strconv.ParseInt(string(text), 10, 64)
	*n = float64(v)
	return err == nil && v >= -safe && v <= safe
}

// accepts reports whether the value is surely valid. It must not report true for an
// invalid value; to report false for a valid one is slow, but right.
func (n *node) accepts(value []byte) bool {
	if n == anything {
		return true
	}
	end, ok := n.match(value, jsonscan.Space(value, 0))
	return ok && jsonscan.Space(value, end) == len(value)
}

// match checks the value at b[i] and returns the offset after it.
func (n *node) match(b []byte, i int) (int, bool) {
	if n == anything {
		return jsonscan.Skip(b, i), true
	}
	switch c := b[i]; c {
	case '{':
		if n.kinds&isObject == 0 || n.enum != nil {
			return i, false
		}
		return n.object(b, i)
	case '[':
		if n.kinds&isArray == 0 || n.enum != nil {
			return i, false
		}
		return n.array(b, i)
	case '"':
		end := jsonscan.Skip(b, i)
		return end, n.kinds&isString != 0 && n.text(b[i:end])
	case 't', 'f':
		return jsonscan.Skip(b, i), n.kinds&isBoolean != 0 && n.enum == nil
	case 'n':
		return jsonscan.Skip(b, i), n.kinds&isNull != 0 && n.enum == nil
	}
	end := jsonscan.Skip(b, i)
	return end, n.enum == nil && n.number(b[i:end])
}

func (n *node) text(token []byte) bool {
	if n.format != "" {
		return n.enum == nil && n.minRunes == 0 && n.maxRunes == math.MaxInt && when.Fits(n.format, jsonscan.Unquote(token), n.minimum, n.maximum)
	}
	if n.enum == nil && n.minRunes == 0 && n.maxRunes == math.MaxInt {
		return true
	}
	content := jsonscan.Content(token)
	if n.enum != nil && !slices.ContainsFunc(n.enum, func(e string) bool { return e == string(content) }) {
		return false
	}
	runes := utf8.RuneCount(content)
	return runes >= n.minRunes && runes <= n.maxRunes
}

// number accepts numbers that are written as plain digits, up to 15 of them, and
// others where only the type counts. The rest is for the library, which computes
// exactly.
func (n *node) number(token []byte) bool {
	if n.kinds&isNumber != 0 && math.IsInf(n.minimum, -1) && math.IsInf(n.maximum, 1) {
		return true
	}
	if n.kinds&isInteger == 0 || len(token) > 15 {
		return false
	}
	v, err := strconv.ParseInt(string(token), 10, 64)
	return err == nil && float64(v) >= n.minimum && float64(v) <= n.maximum
}

func (n *node) array(b []byte, i int) (int, bool) {
	count := 0
	i = jsonscan.Space(b, i+1)
	for b[i] != ']' {
		var ok bool
		if i, ok = n.items.match(b, i); !ok {
			return i, false
		}
		count++
		if i = jsonscan.Space(b, i); b[i] == ',' {
			i = jsonscan.Space(b, i+1)
		}
	}
	return i + 1, count >= n.minItems && count <= n.maxItems
}

func (n *node) object(b []byte, i int) (int, bool) {
	var seen uint64
	i = jsonscan.Space(b, i+1)
	for b[i] != '}' {
		end := jsonscan.Skip(b, i)
		p := n.lookup(b[i:end])
		at := jsonscan.Space(b, jsonscan.Space(b, end)+1)
		child := n.additional
		if p >= 0 {
			seen |= 1 << p
			child = n.properties[p].node
		}
		if child == nil {
			return i, false
		}
		var ok bool
		if i, ok = child.match(b, at); !ok {
			return i, false
		}
		if i = jsonscan.Space(b, i); b[i] == ',' {
			i = jsonscan.Space(b, i+1)
		}
	}
	return i + 1, seen&n.required == n.required && n.chosen(seen)
}

// lookup finds the property of a name's token.
func (n *node) lookup(token []byte) int {
	name := jsonscan.Content(token)
	for i := range n.properties {
		if n.properties[i].name == string(name) {
			return i
		}
	}
	return -1
}
