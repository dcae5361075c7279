package memory

import (
	"encoding/json"

	"kernos/internal/jsonscan"
	"kernos/kernel"
)

// redact returns the data of a Set as it may be recorded. What goes to the vault, or was
// perhaps meant to, is a secret unless it is sealed: a caller may have sent a plain
// secret by mistake, and the record of the refusal must not contain it.
func redact(data json.RawMessage) json.RawMessage {
	key, err := parseKey(jsonscan.Unquote(jsonscan.Member(data, "key")))
	if err == nil && key.isModel() {
		return jsonscan.ReplaceMembers(data, func(name string, value []byte) string {
			if name == "valueRef" || name == "value" && modelFault(value) != "" {
				return kernel.RedactedData
			}
			return ""
		})
	}
	if err == nil && key.space() != vault {
		return data
	}
	return jsonscan.ReplaceMembers(data, func(name string, value []byte) string {
		switch name {
		case "value":
			if fault, _ := sealedFault(value); fault != "" {
				return kernel.RedactedData
			}
		case "valueRef": // a pointer may hold the data itself, or a token in its query
			return kernel.RedactedData
		}
		return ""
	})
}
