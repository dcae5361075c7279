package memory

import (
	"errors"

	"kernos/internal/sealed"
)

// sealedFault says what keeps a text from being a sealed string, or returns "". It looks
// at the form only: who has no key can't tell whether it opens. A text without the prefix
// is plain.
func sealedFault(text string) (fault string, plain bool) {
	_, err := sealed.Parse(text)
	if f, ok := errors.AsType[*sealed.Fault](err); ok {
		return f.Reason, f.Plain
	}
	return "", false
}
