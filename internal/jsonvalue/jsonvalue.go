// Package jsonvalue takes JSON values apart without decoding them whole. The members of an
// object keep their order, which is the order in which people see them.
//
// # Goroutines
//
//   - Checking a long text while it is read, one per text: [Checked] starts it, and it ends when the text has ended, or
//     its reader has closed it.
package jsonvalue

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Kind returns the JSON type of a text: object, array, string, number, boolean or null; "" if
// the text isn't JSON.
func Kind(text string) string {
	if text == "" || !json.Valid([]byte(text)) {
		return ""
	}
	switch strings.TrimSpace(text)[0] {
	case '{':
		return "object"
	case '[':
		return "array"
	case '"':
		return "string"
	case 't', 'f':
		return "boolean"
	case 'n':
		return "null"
	}
	return "number"
}

// String returns the text of a JSON string; ok is false for other values.
func String(value json.RawMessage) (text string, ok bool) {
	if Kind(string(value)) != "string" {
		return "", false
	}
	return text, json.Unmarshal(value, &text) == nil
}

// Plain returns a value as a person writes it: a string without quotes, anything else as JSON.
func Plain(value json.RawMessage) string {
	if text, ok := String(value); ok {
		return text
	}
	return string(value)
}

// Elements returns the elements of a list; nil for other values.
func Elements(value json.RawMessage) (elements []json.RawMessage) {
	_ = json.Unmarshal(value, &elements) // other values have none
	return elements
}

// Marshal returns a Go value as JSON. The value's type is one that always has JSON: it consists of texts, numbers,
// truth values, and JSON that was checked, which stays as it is but for its white space. Bytes of a text that are not UTF-8
// become U+FFFD.
func Marshal(v any) []byte {
	text, err := jsonv2.Marshal(v, jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true), jsontext.PreserveRawStrings(true))
	if err != nil {
		panic(err)
	}
	return text
}

// Decode decodes a value, with numbers as they are written.
func Decode(value json.RawMessage) (v any, err error) {
	d := json.NewDecoder(bytes.NewReader(value))
	d.UseNumber()
	err = d.Decode(&v)
	return v, err
}

// Same reports whether two texts are the same value, with numbers written the same way. The
// order of members doesn't matter.
func Same(a, b json.RawMessage) bool {
	x, errX := Decode(a)
	y, errY := Decode(b)
	if errX != nil || errY != nil {
		return false
	}
	s, _ := json.Marshal(x)
	t, _ := json.Marshal(y)
	return string(s) == string(t)
}

// An Object is a JSON object.
type Object []Member

// A Member is a member of an object.
type Member struct {
	Name  string
	Value json.RawMessage
}

// Members returns the members of an object; nil for other values.
func Members(value json.RawMessage) Object {
	d := jsontext.NewDecoder(bytes.NewReader(value), jsontext.AllowDuplicateNames(true))
	if d.PeekKind() != '{' {
		return nil
	}
	_, err := d.ReadToken()
	o := Object{}
	for err == nil && d.PeekKind() == '"' {
		name, _ := d.ReadToken() // fails if the value does
		m := Member{Name: name.String()}
		var value jsontext.Value
		value, err = d.ReadValue()
		m.Value = json.RawMessage(value.Clone())
		o = append(o, m)
	}
	if err == nil {
		_, err = d.ReadToken()
	}
	if err != nil {
		return nil
	}
	return o
}

// Get returns the value of a member; nil if the object doesn't have it.
func (o Object) Get(name string) json.RawMessage {
	if i := o.index(name); i >= 0 {
		return o[i].Value
	}
	return nil
}

// Has reports whether the object has a member.
func (o Object) Has(name string) bool { return o.index(name) >= 0 }

func (o Object) index(name string) int {
	return slices.IndexFunc(o, func(m Member) bool { return m.Name == name })
}

// Set returns the object with the value of a member changed, or with one more member.
func (o Object) Set(name string, value json.RawMessage) Object {
	if i := o.index(name); i >= 0 {
		o[i].Value = value
		return o
	}
	return append(o, Member{name, value})
}

// Without returns the object without a member.
func (o Object) Without(name string) Object {
	return slices.DeleteFunc(o, func(m Member) bool { return m.Name == name })
}

// Read decodes a member into v, and reports whether the object has it and it fits.
func (o Object) Read(name string, v any) bool {
	value := o.Get(name)
	return value != nil && json.Unmarshal(value, v) == nil
}

// Text returns the object as JSON.
func (o Object) Text() json.RawMessage {
	size := len("{}")
	for _, m := range o {
		size += len(m.Name) + len(m.Value) + len(`"":,`)
	}
	b := append(make([]byte, 0, size), '{')
	for i, m := range o {
		if i > 0 {
			b = append(b, ',')
		}
		b, _ = jsontext.AppendQuote(b, m.Name) // bytes that aren't UTF-8 are replaced
		b = append(append(b, ':'), m.Value...)
	}
	return append(b, '}')
}
