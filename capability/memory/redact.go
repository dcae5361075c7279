package memory

import (
	"encoding/json"

	"kernos/internal/jsonscan"
)

const redacted = `"[redacted]"`

// redact returns the data of a Set as it may be recorded. What goes to the vault, or was
// perhaps meant to, is a secret unless it is sealed: a caller may have sent a plain
// secret by mistake, and the record of the refusal must not contain it.
func redact(data json.RawMessage) json.RawMessage {
	var in getInput
	in.parse(data)
	if key, err := ParseKey(in.Key); err == nil && key.space() != vault {
		return data
	}
	found := false
	out := []byte{'{'}
	jsonscan.Members(data, 0, func(token, value []byte) bool {
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(append(out, token...), ':')
		switch jsonscan.Unquote(token) {
		case "value":
			if fault, _ := sealedValueFault(value); fault != "" {
				value, found = []byte(redacted), true
			}
		case "valueRef": // it may hold the data itself, or a token in its query
			value, found = []byte(redacted), true
		}
		out = append(out, value...)
		return true
	})
	if !found {
		return data
	}
	return append(out, '}')
}
