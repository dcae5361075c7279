package client

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"

	"github.com/go-json-experiment/json/jsontext"
)

// An object is a JSON object whose members keep their order: the order of properties is
// what people see.
type object []member

type member struct {
	name  string
	value json.RawMessage
}

func readObject(text json.RawMessage) (object, error) {
	d := jsontext.NewDecoder(bytes.NewReader(text))
	if d.PeekKind() != '{' {
		return nil, errors.New("not a JSON object")
	}
	if _, err := d.ReadToken(); err != nil {
		return nil, err
	}
	var o object
	for d.PeekKind() == '"' {
		name, err := d.ReadToken()
		if err != nil {
			return nil, err
		}
		m := member{name: name.String()}
		value, err := d.ReadValue()
		if err != nil {
			return nil, err
		}
		m.value = json.RawMessage(bytes.Clone(value))
		o = append(o, m)
	}
	if _, err := d.ReadToken(); err != nil {
		return nil, err
	}
	return o, nil
}

func (o object) get(name string) json.RawMessage {
	for i := range o {
		if o[i].name == name {
			return o[i].value
		}
	}
	return nil
}

func (o object) set(name string, value json.RawMessage) object {
	for i := range o {
		if o[i].name == name {
			o[i].value = value
			return o
		}
	}
	return append(o, member{name, value})
}

func (o object) without(name string) object {
	return slices.DeleteFunc(o, func(m member) bool { return m.name == name })
}

func (o object) text() json.RawMessage {
	b := []byte{'{'}
	for i, m := range o {
		if i > 0 {
			b = append(b, ',')
		}
		name, _ := json.Marshal(m.name)
		b = append(append(append(b, name...), ':'), m.value...)
	}
	return append(b, '}')
}

// read decodes a member into v, and reports whether it is there and fits.
func (o object) read(name string, v any) bool {
	value := o.get(name)
	return value != nil && json.Unmarshal(value, v) == nil
}
