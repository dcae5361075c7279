package rpc

import (
	"bytes"
	"encoding/json"
	"slices"

	"kernos/internal/jsonscan"
)

// texts returns the strings of a list; nil for other values. A value is known to be valid JSON, as a schema is, and is
// not checked again.
func texts(value []byte) (list []string) {
	if len(value) == 0 || value[0] != '[' {
		return nil
	}
	jsonscan.Elements(value, 0, func(value []byte) bool {
		list = append(list, jsonscan.Unquote(value))
		return true
	})
	return list
}

// propertyNames lists the properties that a schema names, in its order.
func propertyNames(schema []byte) (names []string) {
	if properties := jsonscan.Member(schema, "properties"); len(properties) > 0 && properties[0] == '{' {
		jsonscan.Members(properties, 0, func(name, _ []byte) bool {
			names = append(names, jsonscan.Unquote(name))
			return true
		})
	}
	return names
}

// parameter finds one parameter in any of the forms that params may have; nil if it is not
// there.
func parameter(params json.RawMessage, index int, name string) (found []byte) {
	if len(params) == 0 {
		return nil
	}
	if params[0] == '{' {
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

// quoted returns a string as JSON.
func quoted(text string) json.RawMessage { return jsonscan.AppendQuoted(nil, text) }

// marshal encodes a value for which that never fails, without escaping the signs of HTML.
func marshal(v any) []byte {
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	_ = e.Encode(v)
	return bytes.TrimSuffix(text.Bytes(), []byte{'\n'})
}
