package memory

import (
	"context"
	"slices"
	"strings"

	"kernos/internal/nearest"
	"kernos/message"
)

// maxNear is how many keys are compared with one that isn't there.
const maxNear = 200

// missing returns the error for a key that isn't there. It names near ones, of those that the caller reaches.
func (m *Memory) missing(ctx context.Context, asked string, key memoryKey) *message.Error {
	e := notFound(asked)
	folder := string(key[:strings.LastIndexByte(string(key), '/')+1])
	for _, in := range []struct {
		base string
		listInput
	}{{folder, listInput{Limit: maxNear}}, {"", listInput{Limit: maxNear, Recursive: true}}} {
		out, err := m.children(ctx, in.base, in.base, in.listInput)
		if err != nil {
			break // the error about the key is the one that counts
		}
		keys := slices.DeleteFunc(out.Keys, func(other string) bool { return !similar(string(key), other) })
		if hint := nearest.Hint(string(key), keys); hint != "" {
			e.Message += " (" + hint + ")"
			break
		}
	}
	return e
}

// similar reports whether each part of a key is near to that of another one, or equal.
func similar(key, other string) bool {
	parts, others := strings.Split(key, "/"), strings.Split(other, "/")
	if len(parts) != len(others) {
		return false
	}
	for i := range parts {
		if parts[i] != others[i] && len(nearest.Names(parts[i], others[i:i+1])) == 0 {
			return false
		}
	}
	return true
}
