package rpc

import (
	"bytes"
	"encoding/json"

	"kernos/internal/jsonscan"
)

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
	return text(token), len(token) > 0 && token[0] == '"'
}

// text is what stands in a token if it is a string, or "".
func text(token []byte) string {
	if len(token) == 0 || token[0] != '"' {
		return ""
	}
	return jsonscan.Unquote(token)
}

// marshal encodes a value for which that never fails, without escaping the signs of HTML.
func marshal(v any) []byte {
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	_ = e.Encode(v)
	return bytes.TrimSuffix(text.Bytes(), []byte{'\n'})
}
