package rpc

import (
	"bytes"
	"encoding/json"
	"slices"

	"kernos/internal/jsonscan"
	"kernos/internal/jsonvalue"
)

// members returns the members of an object, and texts the strings of a list; none for other values. A value is known to
// be valid JSON, as a schema is, so that it isn't checked again: the first description of 1,000 methods takes half the time
// that it takes with jsonvalue.Members.
func members(value []byte) jsonvalue.Object {
	object := make(jsonvalue.Object, 0, 8)
	jsonscan.Members(value, 0, func(name, value []byte) bool {
		object = append(object, jsonvalue.Member{Name: jsonscan.Unquote(name), Value: value})
		return true
	})
	return object
}

func texts(value []byte) (list []string) {
	jsonscan.Elements(value, 0, func(value []byte) bool {
		list = append(list, jsonscan.Unquote(value))
		return true
	})
	return list
}

// propertyNames lists the properties that a schema names, in its order.
func propertyNames(schema []byte) (names []string) {
	for _, p := range members(jsonscan.Member(schema, "properties")) {
		names = append(names, p.Name)
	}
	return names
}

// parameter finds one parameter in any of the forms that params may have; nil if it is not
// there.
func parameter(params json.RawMessage, index int, name string) (found []byte) {
	if len(params) > 0 && params[0] == '{' {
		return jsonscan.Member(params, name)
	}
	i := 0
	jsonscan.Elements(params, 0, func(value []byte) bool {
		if i == 0 && value[0] == '{' {
			found = parameter(value, index, name)
			return false
		}
		if i == index {
			found = value
		}
		i++
		return found == nil
	})
	return found
}

// firstText returns the parameter that is a text: the first of a list, or the member of an
// object.
func firstText(params []byte, name string) (string, bool) {
	token := parameter(params, 0, name)
	return jsonscan.Unquote(token), len(token) > 0 && token[0] == '"'
}

// array returns a list of values.
func array(values [][]byte) json.RawMessage {
	return slices.Concat([]byte{'['}, bytes.Join(values, []byte{','}), []byte{']'})
}

// jsonString returns a string as JSON.
func jsonString(text string) json.RawMessage { return jsonscan.AppendQuoted(nil, text) }

// marshal encodes a value for which that never fails, without escaping the signs of HTML.
func marshal(v any) []byte {
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	_ = e.Encode(v)
	return bytes.TrimSuffix(text.Bytes(), []byte{'\n'})
}
