package schema

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"

	"kernos/internal/jsonvalue"
)

// rename renames the members of a value of a Go type that came under other names, at any depth, and lists them. It overwrites no member.
func rename(t reflect.Type, value json.RawMessage, all *[]Renaming) json.RawMessage {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch {
	case t.Kind() == reflect.Slice && len(value) > 0 && value[0] == '[':
		before, list := len(*all), []byte{'['}
		for i, element := range jsonvalue.Elements(value) {
			if i > 0 {
				list = append(list, ',')
			}
			list = append(list, rename(t.Elem(), element, all)...)
		}
		if len(*all) == before {
			return value
		}
		return append(list, ']')
	case t.Kind() != reflect.Struct:
		return value
	}
	members := jsonvalue.Members(value)
	before, fields := len(*all), fieldsOf(t)
	for i := range members {
		m := &members[i]
		named := func(f field) bool { return f.name == m.Name }
		if !slices.ContainsFunc(fields, named) {
			meant := slices.IndexFunc(fields, func(f field) bool { return slices.Contains(f.aliases, m.Name) && !members.Has(f.name) })
			if meant < 0 {
				continue
			}
			*all = append(*all, Renaming{m.Name, fields[meant].name})
			m.Name = fields[meant].name
		}
		m.Value = rename(fields[slices.IndexFunc(fields, named)].of, m.Value, all)
	}
	if len(*all) == before {
		return value
	}
	return members.Text()
}

// A field is a member that a Go type has.
type field struct {
	name    string
	aliases []string
	of      reflect.Type
}

// fieldsOf returns the members of a struct, with those of the structs that are embedded in it.
func fieldsOf(t reflect.Type) (all []field) {
	for f := range t.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Anonymous && name == "" && f.Type.Kind() == reflect.Struct:
			all = append(all, fieldsOf(f.Type)...)
		case name != "" && name != "-":
			all = append(all, field{name, strings.FieldsFunc(f.Tag.Get("aliases"), func(r rune) bool { return r == ',' }), f.Type})
		}
	}
	return all
}
