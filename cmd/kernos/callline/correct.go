package callline

import (
	"encoding/json"
	"maps"
	"slices"

	"kernos/client"
	"kernos/internal/jsonvalue"
	"kernos/internal/nearest"
)

// Correct returns parameters that the method takes, as near to the given ones as possible, and
// without secrets. What is missing comes from an example, which may be nil. Without a method
// it is the example: which of the given values are secret isn't known.
func Correct(m *client.Method, given, example json.RawMessage) json.RawMessage {
	if m == nil {
		return example
	}
	return mended(m, withoutSecrets(&m.Field, renamed(m, given)), example)
}

// renamed gives parameters whose names the method doesn't have the names that were probably
// meant.
func renamed(m *client.Method, params json.RawMessage) json.RawMessage {
	members := jsonvalue.Members(params)
	if members == nil {
		return params
	}
	all := make(map[string]json.RawMessage)
	for _, one := range members {
		all[one.Name] = one.Value
	}
	for _, one := range members {
		if m.Member(one.Name) != nil {
			continue
		}
		path, f := meantField(m, one.Name)
		if f == nil || len(path) > 1 || all[path[0]] != nil {
			continue
		}
		if value, err := convertValue(f, jsonvalue.Plain(one.Value)); err == nil {
			delete(all, one.Name)
			all[path[0]] = value
		}
	}
	text, err := json.Marshal(all)
	if err != nil {
		return params
	}
	return text
}

// withoutSecrets leaves out the values of secrets.
func withoutSecrets(f *client.Field, params json.RawMessage) json.RawMessage {
	members := jsonvalue.Members(params)
	if members == nil {
		return params
	}
	shown := make(map[string]json.RawMessage)
	for _, m := range members {
		inner := f.Member(m.Name)
		switch {
		case inner == nil:
			shown[m.Name] = m.Value
		case !inner.Sensitive:
			shown[m.Name] = withoutSecrets(inner, m.Value)
		}
	}
	text, err := json.Marshal(shown)
	if err != nil {
		return nil
	}
	return text
}

// mended returns the given parameters, with values of the example in place of those that are
// missing or wrong.
func mended(m *client.Method, given, example json.RawMessage) json.RawMessage {
	if m == nil || given == nil {
		if example != nil {
			return example
		}
		return given
	}
	if m.Validate(given) == nil {
		return given
	}
	if example == nil {
		example = m.Example()
	}
	if example == nil {
		return given
	}
	result := make(map[string]json.RawMessage)
	var base, wanted map[string]json.RawMessage
	if json.Unmarshal(example, &base) != nil || json.Unmarshal(given, &wanted) != nil {
		return example
	}
	maps.Copy(result, base)
	fits := func() bool {
		text, err := json.Marshal(result)
		return err == nil && m.Validate(text) == nil
	}
	for _, name := range slices.Sorted(maps.Keys(wanted)) {
		old, had := result[name]
		if result[name] = wanted[name]; fits() {
			continue
		}
		if result[name] = likeliest(m.Member(name), wanted[name]); result[name] != nil && fits() {
			continue
		}
		delete(result, name)
		if had {
			result[name] = old
		}
	}
	text, err := json.Marshal(result)
	if err != nil {
		return example
	}
	return text
}

// likeliest returns the possible value of a parameter that was probably meant, or nil.
func likeliest(f *client.Field, given json.RawMessage) json.RawMessage {
	if f == nil {
		return nil
	}
	words := make([]string, len(f.Enum))
	for i, v := range f.Enum {
		words[i] = jsonvalue.Plain(v)
	}
	near := nearest.Names(jsonvalue.Plain(given), words)
	if len(near) == 0 {
		return nil
	}
	return f.Enum[slices.Index(words, near[0])]
}
