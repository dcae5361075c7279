package schema

import (
	"encoding/json"
	"errors"
	"slices"
	"strconv"

	"kernos/internal/jsonvalue"
)

// A Renaming is a member of a value that was read under another name.
type Renaming struct{ From, To string }

// Meant returns a value as it was meant, if it doesn't fit the schema as it is: without optional members that are null where the
// schema doesn't take null, and with the members that came under other names renamed, which are listed. The other names of
// a member are in the tag of its field:
//
//	Name message.Type `json:"name" aliases:"type"`
//
// If the value doesn't fit then either, it comes back as it is, and invalid is what is wrong besides.
func (s *Schema) Meant(value json.RawMessage) (meant json.RawMessage, all []Renaming, invalid error) {
	if invalid = s.Validate(value); invalid == nil {
		return value, nil, nil
	}
	meant, invalid = s.withoutNulls(value, invalid)
	if invalid != nil && s.goType != nil {
		if renamed := rename(s.goType, meant, &all); all != nil {
			meant, invalid = renamed, s.Validate(renamed)
		}
	}
	if invalid != nil {
		return value, nil, invalid
	}
	return meant, all, nil
}

// withoutNulls leaves out the members whose null is a problem, except required ones, and returns what is wrong besides.
func (s *Schema) withoutNulls(value json.RawMessage, invalid error) (json.RawMessage, error) {
	e, ok := errors.AsType[*Invalid](invalid)
	if !ok || len(e.nulls) == 0 {
		return value, invalid
	}
	nulls := slices.Clone(e.nulls)
	for {
		less := without(value, nulls)
		wrong := s.Validate(less)
		left := len(nulls)
		if missing, ok := errors.AsType[*Invalid](wrong); ok {
			nulls = slices.DeleteFunc(nulls, func(null []string) bool {
				return slices.ContainsFunc(missing.Problems, func(p Problem) bool { return p.rank == 0 && slices.Equal(p.at, null) })
			})
		}
		if len(nulls) == left {
			return less, wrong
		}
	}
}

// without returns a value without the members at some places.
func without(value json.RawMessage, places [][]string) json.RawMessage {
	beneath := make(map[string][][]string) // the places, by the member or the element that they are in
	for _, p := range places {
		beneath[p[0]] = append(beneath[p[0]], p[1:])
	}
	ends := func(p []string) bool { return len(p) == 0 }
	if len(value) > 0 && value[0] == '[' {
		list := []byte{'['}
		for i, element := range jsonvalue.Elements(value) {
			if i > 0 {
				list = append(list, ',')
			}
			if inner := beneath[strconv.Itoa(i)]; inner != nil {
				element = without(element, inner)
			}
			list = append(list, element...)
		}
		return append(list, ']')
	}
	var left jsonvalue.Object
	for _, m := range jsonvalue.Members(value) {
		switch inner := beneath[m.Name]; {
		case inner == nil:
		case slices.ContainsFunc(inner, ends):
			continue
		default:
			m.Value = without(m.Value, inner)
		}
		left = append(left, m)
	}
	return left.Text()
}
