package line

import (
	"encoding/json"
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
	return corrected(m, withoutSecrets(&m.Field, renamed(m, given), nil), example)
}

// renamed gives parameters whose names the method doesn't have the names that were probably
// meant.
func renamed(m *client.Method, params json.RawMessage) json.RawMessage {
	members := jsonvalue.Members(params)
	if members == nil {
		return params
	}
	all := slices.Clone(members)
	for _, one := range members {
		if m.Member(one.Name) != nil {
			continue
		}
		path, f := meantField(m, one.Name)
		if f == nil || len(path) > 1 || all.Has(path[0]) {
			continue
		}
		if value, err := convertValue(f, jsonvalue.Plain(one.Value)); err == nil {
			all = all.Without(one.Name).Set(path[0], value)
		}
	}
	return all.Text()
}

// withoutSecrets puts another value in the place of each secret, or leaves secrets out if that is nil.
func withoutSecrets(f *client.Field, params, instead json.RawMessage) json.RawMessage {
	members := jsonvalue.Members(params)
	if members == nil {
		return params
	}
	shown := jsonvalue.Object{}
	for _, m := range members {
		inner := f.Member(m.Name)
		switch {
		case inner == nil:
			shown = shown.Set(m.Name, m.Value)
		case !inner.Sensitive:
			shown = shown.Set(m.Name, withoutSecrets(inner, m.Value, instead))
		case instead != nil:
			shown = shown.Set(m.Name, instead)
		}
	}
	return shown.Text()
}

// corrected returns the given parameters, with values of the example in place of those that are
// missing or wrong.
func corrected(m *client.Method, given, example json.RawMessage) json.RawMessage {
	if given == nil && example != nil {
		return example
	}
	if given == nil || m.Validate(given) == nil {
		return given
	}
	if example == nil {
		example = m.Example()
	}
	if example == nil {
		return given
	}
	result, wanted := jsonvalue.Members(example), jsonvalue.Members(given)
	if result == nil || wanted == nil {
		return example
	}
	fits := func(value json.RawMessage, name string) bool {
		changed := slices.Clone(result).Set(name, value)
		if value == nil || m.Validate(changed.Text()) != nil {
			return false
		}
		result = changed
		return true
	}
	for _, w := range wanted {
		if !fits(w.Value, w.Name) {
			fits(likeliest(m.Member(w.Name), w.Value), w.Name)
		}
	}
	return result.Text()
}

// likeliest returns the possible value of a parameter that was probably meant, or nil.
func likeliest(f *client.Field, given json.RawMessage) json.RawMessage {
	if f == nil {
		return nil
	}
	words := Values(f)
	near := nearest.Names(jsonvalue.Plain(given), words[:len(f.Enum)])
	if len(near) == 0 {
		return nil
	}
	return f.Enum[slices.Index(words, near[0])]
}
