package jetstream

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/cespare/xxhash/v2"
	"github.com/nats-io/nats.go"

	"kernos/store/replicated"
)

// Headers of entries.
const (
	headerEntry  = "Kernos-Entry"  // the epoch, the number of the first group, the number of groups, and the sum of the body
	headerObject = "Kernos-Object" // the object that has the body, if the message has none
)

// A body is the groups of an entry, each after its length.
func body(groups [][]byte) []byte {
	size := 0
	for _, g := range groups {
		size += binary.MaxVarintLen64 + len(g)
	}
	b := make([]byte, 0, size)
	for _, g := range groups {
		b = binary.AppendUvarint(b, uint64(len(g)))
		b = append(b, g...)
	}
	return b
}

// headerOf returns the headers of the message of an entry.
func headerOf(e replicated.Entry, body []byte) nats.Header {
	return nats.Header{headerEntry: {fmt.Sprintf("%d %d %d %016x", e.Epoch, e.First, len(e.Groups), xxhash.Sum64(body))}}
}

// errDamaged is the error of a message that isn't what was published. Another replica may have it whole.
var errDamaged = errors.New("the message is damaged")

// entryOf returns the entry of a message without its groups, their number and the sum of the body.
func entryOf(m Message) (e replicated.Entry, count int, sum uint64, err error) {
	e.Sequence = m.Sequence
	if _, err = fmt.Sscanf(m.Header.Get(headerEntry), "%d %d %d %x", &e.Epoch, &e.First, &count, &sum); err != nil {
		err = fmt.Errorf("%w: the header %s of the message %d is %q", errDamaged, headerEntry, m.Sequence, m.Header.Get(headerEntry))
	}
	return e, count, sum, err
}

// groupsOf returns the groups in a body, which keep it.
func groupsOf(body []byte, count int, sum uint64) ([][]byte, error) {
	if xxhash.Sum64(body) != sum || count > len(body) {
		return nil, fmt.Errorf("%w: the sum of its body is wrong", errDamaged)
	}
	var groups [][]byte
	if count > 0 {
		groups = make([][]byte, 0, count)
	}
	for range count {
		size, n := binary.Uvarint(body)
		if n <= 0 || size > uint64(len(body)-n) {
			return nil, fmt.Errorf("%w: a group is cut off", errDamaged)
		}
		groups = append(groups, body[n:n+int(size):n+int(size)])
		body = body[n+int(size):]
	}
	if len(body) > 0 {
		return nil, fmt.Errorf("%w: bytes are left behind its groups", errDamaged)
	}
	return groups, nil
}
