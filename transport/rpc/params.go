package rpc

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
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

// A variant of a module's schema has a property called method, which distinguishes the
// variants. A field that a syscall itself calls method goes by another name there.
const (
	methodField  = "method"
	renamedField = "method_"
)

// renamed undoes what the schema of a module does to the names of fields: method, with the
// name of the method, is left out, and method_ is the field that the syscall calls method. The
// names that the syscall itself gives its fields are accepted too.
func renamed(route *kernel.Route, object []byte) json.RawMessage {
	if !bytes.Contains(object, []byte(methodField)) { // a name with escapes is not the module's field
		return object
	}
	members := members(object)
	chosen := jsonscan.Unquote(members.Get(methodField)) == route.Method // the field chooses the variant of the module's schema
	if !slices.Contains(propertyNames(route.Syscall.Input.JSON()), methodField) {
		if chosen {
			return members.Without(methodField).Text()
		}
		return object
	}
	value := members.Get(renamedField)
	switch {
	case value != nil && (chosen || !members.Has(methodField)):
		return members.Without(renamedField).Without(methodField).Set(methodField, value).Text()
	case chosen:
		// The value could be that of the syscall's own field.
		without := members.Without(methodField).Text()
		if route.Syscall.Input.Validate(without) != nil && route.Syscall.Input.Validate(object) == nil {
			return object
		}
		return without
	}
	return object
}
