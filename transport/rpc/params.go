package rpc

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"kernos/internal/jsonscan"
	"kernos/kernel"
)

var emptyObject = json.RawMessage("{}")

// dataOf makes the data of a message from params in any of their forms: [{…}], [], a bare
// object, or values in the order in which the schema has its properties.
func dataOf(route *kernel.Route, params []byte) (json.RawMessage, error) {
	if len(params) == 0 {
		return emptyObject, nil
	}
	if params[0] == '{' {
		return renamed(route, params), nil
	}
	var values [][]byte
	jsonscan.Elements(params, 0, func(value []byte) bool {
		values = append(values, value)
		return true
	})
	switch {
	case len(values) == 0:
		return emptyObject, nil
	case len(values) == 1 && values[0][0] == '{':
		return renamed(route, values[0]), nil
	}
	names := propertyNames(route.Syscall.Input.JSON())
	if len(values) > len(names) {
		if len(names) == 0 && len(values) == 1 {
			return values[0], nil // the schema does not speak of an object
		}
		return nil, fmt.Errorf("%d values came, and there are %d fields: %s", len(values), len(names), strings.Join(names, ", "))
	}
	data := []byte{'{'}
	for i, value := range values {
		if i > 0 {
			data = append(data, ',')
		}
		data = append(append(jsonscan.AppendQuoted(data, names[i]), ':'), value...)
	}
	return append(data, '}'), nil
}

// A variant of a module's schema has a property called method, which tells the variants
// apart. A field that a syscall itself calls method goes by another name there.
const (
	methodField  = "method"
	renamedField = "method_"
)

// renamed undoes what the schema of a module does to the names of fields: method, with the
// name of the method, is left out, and method_ is the field that the syscall calls method.
func renamed(route *kernel.Route, object []byte) json.RawMessage {
	if !bytes.Contains(object, []byte(methodField)) { // written otherwise, it is not meant
		return object
	}
	names := propertyNames(route.Syscall.Input.JSON())
	has := false
	for _, n := range names {
		has = has || n == methodField
	}
	out := []byte{'{'}
	changed := false
	jsonscan.Members(object, 0, func(name, value []byte) bool {
		switch plain := jsonscan.Unquote(name); {
		case plain == methodField && !has && text(value) == route.Method:
			changed = true
			return true
		case plain == renamedField && has && jsonscan.Member(object, methodField) == nil:
			name, changed = []byte(`"`+methodField+`"`), true
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(append(append(out, name...), ':'), value...)
		return true
	})
	if !changed {
		return object
	}
	return append(out, '}')
}
