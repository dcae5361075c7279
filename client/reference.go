package client

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"kernos/internal/jsonvalue"
	"kernos/message"
)

// An answer has a pointer in place of data that is too large for it, or that isn't text: dataRef in place
// of all of it, with its size and media type beside it, or a member such as bodyRef in place of body.
const (
	referenceSuffix = "Ref"
	wholeReference  = "dataRef"
)

var besideWhole = []string{wholeReference, "size", "mediaType"}

// Whole returns the pointer that an answer has in place of all of its data.
func Whole(data json.RawMessage) (p message.BlobPointer, ok bool) {
	members := jsonvalue.Members(data)
	if !members.Has(wholeReference) || slices.ContainsFunc(members, func(m jsonvalue.Member) bool { return !slices.Contains(besideWhole, m.Name) }) {
		return p, false
	}
	p, err := message.ParseBlobPointer(members.Get(wholeReference))
	return p, err == nil
}

// MayRefer reports whether an answer may have a pointer. If not, [Resolve] changes nothing.
func MayRefer(data json.RawMessage) bool {
	return bytes.Contains(data, []byte(referenceSuffix+`"`)) || bytes.Contains(data, []byte(`\u`)) // a name may be escaped
}

// A Fetch returns the data that an answer has a pointer to in place of a member, or of all of it if the name
// is empty. Nil leaves the pointer where it is.
type Fetch = func(name string, p message.BlobPointer) ([]byte, error)

// Resolve returns the data of an answer with what its pointers mean in their place. The output describes the
// data: what looks like a reference there without being declared as one is data. If the output is nil,
// it isn't known, and the members of the data itself go by their names.
func Resolve(data json.RawMessage, output *Field, fetch Fetch) (json.RawMessage, error) {
	if p, ok := Whole(data); ok {
		content, err := fetch("", p)
		if err != nil || content == nil {
			return data, err
		}
		data = content
	}
	return resolve(data, output, fetch)
}

func resolve(data json.RawMessage, f *Field, fetch Fetch) (_ json.RawMessage, err error) {
	switch jsonvalue.Kind(string(data)) {
	case "array":
		if f == nil || f.Items == nil {
			return data, nil
		}
		elements := jsonvalue.Elements(data)
		for i := range elements {
			if elements[i], err = resolve(elements[i], f.Items, fetch); err != nil {
				return nil, err
			}
		}
		return json.Marshal(elements)
	case "object":
		members := jsonvalue.Members(data)
		for i, m := range members {
			if base, p, ok := reference(members, m, f); ok {
				content, err := fetch(base, p)
				if err != nil {
					return nil, err
				}
				if content != nil {
					members[i] = jsonvalue.Member{Name: base, Value: referred(f, base, content)}
				}
			} else if f != nil && f.Member(m.Name) != nil {
				if members[i].Value, err = resolve(m.Value, f.Member(m.Name), fetch); err != nil {
					return nil, err
				}
			}
		}
		return members.Text(), nil
	}
	return data, nil
}

// reference returns what a member of an object is a reference to.
func reference(members jsonvalue.Object, m jsonvalue.Member, f *Field) (base string, p message.BlobPointer, ok bool) {
	base, ok = strings.CutSuffix(m.Name, referenceSuffix)
	if !ok || base == "" || members.Has(base) || f != nil && (f.Member(base) == nil || f.Member(m.Name) == nil) {
		return "", p, false
	}
	p, err := message.ParseBlobPointer(m.Value)
	return base, p, err == nil
}

// referred returns the content behind a reference as the value of its member: JSON where the member may be
// something else than a text.
func referred(f *Field, name string, content []byte) json.RawMessage {
	if f != nil && f.Member(name).Scalar() != "string" && jsonvalue.Kind(string(content)) != "" {
		return content
	}
	text, _ := json.Marshal(string(content)) // a text can't fail
	return text
}
