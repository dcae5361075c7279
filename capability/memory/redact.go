package memory

import (
	"encoding/json"

	"kernos/internal/jsonscan"
)

const redacted = `"[redacted]"`

// redact returns the data of a Set as it may be recorded. What goes to the vault, or was
// perhaps meant to, is a secret unless it is sealed: somebody may have sent it in plain
// by mistake, and the refusal must not be what writes it down.
func redact(data json.RawMessage) json.RawMessage {
	in := parse(data)
	if _, key, err := in.keyOf(); err == nil && key.space() != vault {
		return data
	}
	secret := in.valueRef != nil
	if in.value != nil {
		fault, _ := sealedValueFault(in.value)
		secret = secret || fault != ""
	}
	if !secret {
		return data
	}
	out := []byte{'{'}
	jsonscan.Members(data, 0, func(token, value []byte) bool {
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(append(out, token...), ':')
		switch jsonscan.Unquote(token) {
		case "value":
			if fault, _ := sealedValueFault(value); fault != "" {
				value = []byte(redacted)
			}
		case "valueRef": // it may hold the data itself, or a token in its query
			value = []byte(redacted)
		}
		out = append(out, value...)
		return true
	})
	return append(out, '}')
}
