package memory

import (
	"errors"

	"kernos/internal/sealed"
)

// sealedFault says what keeps a text from being a sealed string, or returns "". It looks
// at the form only: without the key, it is not known whether the string opens. A text without
// the prefix is plain.
func sealedFault(text string) (fault string, plain bool) {
	_, err := sealed.Parse(text)
	if f, ok := errors.AsType[*sealed.Fault](err); ok {
		return f.Reason, f.Plain
	}
	return "", false
}
