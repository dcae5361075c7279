package vector

import (
	"bytes"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"kernos/message"
	"kernos/store"
)

// A filter is conditions on the metadata of an item, all of which must hold.
type filter []condition

// A condition holds if one of the values of a field is within one of its ranges.
type condition struct {
	field  string
	ranges []span
}

// A span is values in the form of [orderly]: from one on, and before another; nil means without a bound.
type span struct{ from, to []byte }

func (s span) has(value []byte) bool {
	return bytes.Compare(value, s.from) >= 0 && (s.to == nil || bytes.Compare(value, s.to) < 0)
}

func isScalar(value jsontext.Value) bool { return strings.IndexByte(`"0tfn`, byte(value.Kind())) >= 0 }

// checkMetadata returns what can't be kept, or found again.
func checkMetadata(id string, metadata map[string]jsontext.Value) error {
	if len(metadata) > maxFields {
		return message.Invalid("items", "items: the metadata of %q has %d fields, and %d are allowed", id, len(metadata), maxFields)
	}
	for field, value := range metadata {
		fine := isScalar(value)
		if value.Kind() == '[' {
			all := elements(value)
			fine = len(all) <= maxFields && !slices.ContainsFunc(all, func(v jsontext.Value) bool { return !isScalar(v) })
		}
		if !fine || field == "" || len(field) > 64 || strings.ContainsRune(field, 0) || len(value) > maxValue {
			return message.Invalid("items", "items: the metadata field %q of %q must be a text, a number, true, false, null, or a list of up to %d of these, within %d bytes", message.Clip(field, 64), id, maxFields, maxValue)
		}
	}
	return nil
}

const (
	maxFields = 32
	maxValue  = 1024 // bytes of a field of the metadata
)

// bounds are the operators of a filter: limits and a prefix that a field is compared with.
type bounds struct {
	GT     jsontext.Value `json:"gt,omitzero"`
	GTE    jsontext.Value `json:"gte,omitzero"`
	LT     jsontext.Value `json:"lt,omitzero"`
	LTE    jsontext.Value `json:"lte,omitzero"`
	Prefix *string        `json:"prefix,omitzero"`
}

// readFilter reads the filter of a request.
func readFilter(in map[string]jsontext.Value) (filter, error) {
	var f filter
	for field, value := range in {
		c := condition{field: field}
		switch value.Kind() {
		case '[':
			for _, one := range elements(value) {
				if !isScalar(one) {
					return nil, badCondition(field)
				}
				c.ranges = append(c.ranges, equal(one))
			}
		case '{':
			s, ok := readBounds(value)
			if !ok {
				return nil, badCondition(field)
			}
			c.ranges = []span{s}
		default:
			c.ranges = []span{equal(value)}
		}
		f = append(f, c)
	}
	slices.SortFunc(f, func(a, b condition) int { return strings.Compare(a.field, b.field) })
	return f, nil
}

func badCondition(field string) error {
	return message.Invalid("filter", `filter: the condition of %q must be a value, a list of values, or bounds such as {"gte":1,"lt":10} or {"prefix":"a"}`, message.Clip(field, 64))
}

func equal(value jsontext.Value) span {
	from := orderly(value)
	return span{from, append(bytes.Clone(from), 0)}
}

func readBounds(value jsontext.Value) (s span, ok bool) {
	var b bounds
	if json.Unmarshal(value, &b, json.RejectUnknownMembers(true)) != nil {
		return s, false
	}
	if b.Prefix != nil {
		from := escaped('s', []byte(*b.Prefix))
		if len(b.GT)+len(b.GTE)+len(b.LT)+len(b.LTE) > 0 {
			return s, false
		}
		return span{from, store.After(from)}, true
	}
	var kind jsontext.Kind
	for _, bound := range []struct {
		value jsontext.Value
		after bool
		to    bool
	}{{b.GT, true, false}, {b.GTE, false, false}, {b.LT, false, true}, {b.LTE, true, true}} {
		if len(bound.value) == 0 {
			continue
		}
		if k := bound.value.Kind(); k != '0' && k != '"' || kind != 0 && k != kind {
			return s, false
		}
		kind = bound.value.Kind()
		at := orderly(bound.value)
		if bound.after {
			at = append(at, 0)
		}
		if bound.to {
			if s.to == nil || bytes.Compare(at, s.to) < 0 {
				s.to = at
			}
		} else if bytes.Compare(at, s.from) > 0 {
			s.from = at
		}
	}
	if kind == 0 {
		return s, false
	}
	// Values of other kinds are outside.
	letter := map[jsontext.Kind]byte{'0': 'n', '"': 's'}[kind]
	if s.from == nil {
		s.from = []byte{letter}
	}
	if s.to == nil {
		s.to = []byte{letter + 1}
	}
	return s, true
}

// accepts reports whether an item with this metadata is wanted.
func (f filter) accepts(metadata map[string]jsontext.Value) bool {
	for _, c := range f {
		value, ok := metadata[c.field]
		if !ok || !slices.ContainsFunc(elements(value), func(one jsontext.Value) bool {
			at := orderly(one)
			return slices.ContainsFunc(c.ranges, func(s span) bool { return s.has(at) })
		}) {
			return false
		}
	}
	return true
}

// few is how many items are listed before a search, where a condition leaves no more.
const few = 10_000

// listed returns the items that one of the conditions leaves, if these are few: then nothing else has to be looked at. all is false if
// every condition leaves many.
func (f filter) listed(r store.Reader, n name) (ids []string, all bool, err error) {
	for _, c := range f {
		if ids, all, err = c.listed(r, n); err != nil || all {
			return ids, all, err
		}
	}
	return nil, false, nil
}

func (c condition) listed(r store.Reader, n name) (ids []string, all bool, err error) {
	prefix := n.key(spaceField, c.field, "")
	found := make(map[string]bool)
	for _, s := range c.ranges {
		keys := store.Range{From: append(bytes.Clone(prefix), s.from...), To: store.After(prefix)}
		if s.to != nil {
			keys.To = append(bytes.Clone(prefix), s.to...)
			if end := len(keys.To) - 1; keys.To[end] == 0 { // behind a value, which a zero and an id follow
				keys.To[end] = 1
			}
		}
		for e, err := range r.Scan(keys) {
			if err != nil {
				return nil, false, err
			}
			value, id, ok := bytes.Cut(e.Key[len(prefix):], []byte{0})
			if !ok {
				return nil, false, damaged(nil)
			}
			if s.has(value) {
				found[string(id)] = true
			}
			if len(found) > few {
				return nil, false, nil
			}
		}
	}
	for id := range found {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids, true, nil
}
