package pebble

import (
	"encoding/binary"
	"errors"
	"math"
	"slices"

	crdb "github.com/cockroachdb/pebble/v2"

	"kernos/store"
)

// The engine's own keys in a copy. They never travel, and a copy has them for itself alone.
const (
	positionKey = "\x00kernos/position" // a Position
	undoPrefix  = "\x00kernos/undo/"    // the number of a group → what it has replaced
)

// A Position is how far a copy is. The groups after Accepted are its tail: they can be taken back.
type Position struct {
	Epoch    uint64 // the epoch of the last entry that the copy knows to be accepted, and of its tail
	Sequence uint64 // the sequence of that entry
	Accepted uint64 // the number of the last group up to that entry
	Number   uint64 // the number of the last group in the copy
	Link     uint32 // the link of the group Accepted
}

// positionForm is the first byte of a stored position.
const positionForm = 1

func (p Position) encode(to []byte) []byte {
	to = append(to[:0], positionForm)
	for _, n := range [...]uint64{p.Epoch, p.Sequence, p.Accepted, p.Number, uint64(p.Link)} {
		to = binary.AppendUvarint(to, n)
	}
	return to
}

func parsePosition(stored []byte) (p Position, ok bool) {
	if len(stored) == 0 || stored[0] != positionForm {
		return p, false
	}
	rest := stored[1:]
	var link uint64
	for _, n := range []*uint64{&p.Epoch, &p.Sequence, &p.Accepted, &p.Number, &link} {
		v, size := binary.Uvarint(rest)
		if size <= 0 {
			return Position{}, false
		}
		*n, rest = v, rest[size:]
	}
	if len(rest) > 0 || p.Accepted > p.Number || link > math.MaxUint32 {
		return Position{}, false
	}
	p.Link = uint32(link)
	return p, true
}

// readPosition returns the position of a copy. There is none in a store that is not a copy, or not yet.
func readPosition(dir string, db *crdb.DB) (p Position, there bool, err error) {
	stored, err := readOwn(db, positionKey)
	if err != nil || stored == nil {
		return p, false, err
	}
	p, ok := parsePosition(stored)
	if !ok {
		return p, false, damage(dir, "", errors.New("its position in the cluster's log is unreadable"))
	}
	return p, true, nil
}

func undoKey(number uint64) []byte {
	return binary.BigEndian.AppendUint64(append(make([]byte, 0, len(undoPrefix)+8), undoPrefix...), number)
}

// An undo record has for each change of a group the key and what the group has found there: a length of 0 if nothing
// was there, otherwise a length plus 1 and the value with its revision. If a group changes a key twice, the first
// record of the key counts.
func appendUndo(to, key, before []byte, there bool) []byte {
	to = append(binary.AppendUvarint(to, uint64(len(key))), key...)
	if !there {
		return append(to, 0)
	}
	return append(binary.AppendUvarint(to, uint64(len(before))+1), before...)
}

// appendUndoEntry is appendUndo for an entry that was there.
func appendUndoEntry(to, key []byte, before *store.Entry) []byte {
	var number [binary.MaxVarintLen64]byte
	revision := binary.AppendUvarint(number[:0], uint64(before.Revision))
	to = append(binary.AppendUvarint(to, uint64(len(key))), key...)
	to = append(binary.AppendUvarint(to, uint64(len(revision)+len(before.Value))+1), revision...)
	return append(to, before.Value...)
}

// A replaced is what a group has found at a key.
type replaced struct {
	key, value []byte
	there      bool
}

// parseUndo returns what is to be put back, the last change first.
func parseUndo(stored []byte) (all []replaced, err error) {
	unreadable := errors.New("the record that takes a group back is unreadable")
	for len(stored) > 0 {
		key, rest, ok := cutText(stored)
		if !ok || foreign(key) && string(key) != revisionKey {
			return nil, unreadable
		}
		size, n := binary.Uvarint(rest)
		if n <= 0 || size > 0 && size-1 > uint64(len(rest)-n) {
			return nil, unreadable
		}
		r := replaced{key: key, there: size > 0}
		rest = rest[n:]
		if r.there {
			r.value, rest = rest[:size-1], rest[size-1:]
		}
		all, stored = append(all, r), rest
	}
	slices.Reverse(all)
	return all, nil
}
