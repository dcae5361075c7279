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
	if near := m.near(ctx, key); len(near) > 0 {
		e.Message += " (" + nearest.Ask(near) + ")"
	}
	return e
}

// near returns keys that may be meant by one that isn't there: of its folder, or, if that isn't there either, of all. Programs
// look whether a key is there as often as they read one, so that this has to cost little.
func (m *Memory) near(ctx context.Context, key memoryKey) []string {
	at := strings.LastIndexByte(string(key), '/') + 1
	folder, name := string(key[:at]), string(key[at:])
	out, err := m.children(ctx, folder, folder, listInput{Limit: maxNear})
	if err != nil {
		return nil // the error about the key is the one that counts
	}
	if len(out.Keys) > 0 {
		names := slices.DeleteFunc(out.Keys, func(other string) bool { return strings.HasSuffix(other, "/") })
		for i, other := range names {
			names[i] = other[at:]
		}
		near := nearest.Names(name, names)
		for i := range near {
			near[i] = folder + near[i]
		}
		return near
	}
	if out, err = m.children(ctx, "", "", listInput{Limit: maxNear, Recursive: true}); err != nil {
		return nil
	}
	return nearest.Names(string(key), slices.DeleteFunc(out.Keys, func(other string) bool { return !similar(string(key), other) }))
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
