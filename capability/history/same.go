package history

import (
	"bytes"
	"encoding/json"

	"kernos/internal/jsonscan"
)

// sameJSON reports whether two texts are the same value: the order of members, white
// space, escapes and the spelling of numbers don't matter.
func sameJSON(a, b json.RawMessage) bool {
	return bytes.Equal(a, b) || bytes.Equal(jsonscan.AppendCanonical(nil, a), jsonscan.AppendCanonical(nil, b))
}
