package memory

import (
	"bytes"
	"math"
	"strconv"

	"kernos/internal/jsonscan"
)

// A request is the data of a Get, a Set or a Delete, taken apart in place: nothing of it
// is decoded before it is needed. The tokens are nil where a member is missing.
type request struct {
	key          []byte
	revision     []byte
	withRevision bool
	value        []byte
	valueRef     []byte
	as           []byte
	ttl          []byte
	ifRevision   []byte
}

// parse takes data apart that fits its schema.
func parse(data []byte) (in request) {
	jsonscan.Members(data, 0, func(name, value []byte) bool {
		if bytes.IndexByte(name, '\\') >= 0 {
			name = jsonscan.AppendQuoted(nil, jsonscan.Unquote(name))
		}
		switch string(name) {
		case `"key"`:
			in.key = value
		case `"revision"`:
			in.revision = value
		case `"withRevision"`:
			in.withRevision = value[0] == 't'
		case `"value"`:
			in.value = value
		case `"valueRef"`:
			in.valueRef = value
		case `"as"`:
			in.as = value
		case `"ttl"`:
			in.ttl = value
		case `"ifRevision"`:
			in.ifRevision = value
		}
		return true
	})
	return in
}

// keyOf reads the key, and returns it as it was asked for, too.
func (in *request) keyOf() (asked string, key Key, err error) {
	asked = jsonscan.Unquote(in.key)
	key, err = ParseKey(asked)
	return asked, key, err
}

// integer reads a number that its schema says is a whole one, in whatever notation, and
// not negative.
func integer(token []byte) uint64 {
	if n, err := strconv.ParseUint(string(token), 10, 64); err == nil {
		return n
	}
	f, _ := strconv.ParseFloat(string(token), 64)
	return uint64(max(0, min(f, math.MaxInt64/2)))
}
