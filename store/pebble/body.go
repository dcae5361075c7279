package pebble

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	crdb "github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/batchrepr"

	"kernos/store"
)

// A body is a group of batches as it travels from the owner of an origin to the copies: bodyForm, the version of the
// schema as a uvarint, the link of the body before it, and the changes of the group in their order, as Pebble has
// them in its own batches. Each change is a byte for its kind, a key and, unless it deletes one key, a value; both
// after their lengths. Values have their revisions before them, as in Pebble. Of the engine's own keys, only
// revisionKey is in it.

// The first byte of a body.
const (
	bodyForm  = 1
	foundForm = 2 // a body that makes a new store, and has no link to one before it
)

// linkSize is how many bytes a link has.
const linkSize = 4

// Link returns the link of a body, which the next one has in it. So a copy can't follow a log that has another past.
func Link(body []byte) uint32 { return crc32.Checksum(body, castagnoli) }

// The kinds of changes.
const (
	kindDelete      = byte(crdb.InternalKeyKindDelete)
	kindSet         = byte(crdb.InternalKeyKindSet)
	kindDeleteRange = byte(crdb.InternalKeyKindRangeDelete)
)

// ErrBody marks the errors of bodies that can't be read.
var ErrBody = errors.New("it isn't in the form of this kernos")

// newBody returns a body without changes, with room for some.
func newBody(form byte, version uint64, link uint32, room int) []byte {
	body := append(make([]byte, 0, 1+binary.MaxVarintLen64+linkSize+room), form)
	return binary.BigEndian.AppendUint32(binary.AppendUvarint(body, version), link)
}

// bodyOf returns the body of a batch of Pebble, which Pebble doesn't have yet.
func bodyOf(version uint64, link uint32, b *crdb.Batch) []byte {
	changes := b.Repr()[batchrepr.HeaderLen:]
	return append(newBody(bodyForm, version, link, len(changes)), changes...)
}

// parseHead returns what a body has before its changes.
func parseHead(version uint64, body []byte) (form byte, link uint32, changes []byte, err error) {
	if len(body) == 0 || body[0] != bodyForm && body[0] != foundForm {
		return 0, 0, nil, store.Errorf(503, ErrBody,
			"The cluster has changes that this kernos can't read; install a newer one on this node")
	}
	of, n := binary.Uvarint(body[1:])
	switch {
	case n <= 0 || len(body) < 1+n+linkSize:
		return 0, 0, nil, ErrBody
	case of != version:
		cause := fmt.Errorf("%w: they have schema version %d, this kernos knows %d", ErrBody, of, version)
		return 0, 0, nil, store.Errorf(503, cause,
			"The cluster has changes of another version of kernos; install the same one on all nodes")
	}
	changes = body[1+n:]
	return body[0], binary.BigEndian.Uint32(changes), changes[linkSize:], nil
}

// appendSet adds a change to a body.
func appendSet(body, key, value []byte) []byte {
	body = append(binary.AppendUvarint(append(body, kindSet), uint64(len(key))), key...)
	return append(binary.AppendUvarint(body, uint64(len(value))), value...)
}

// appendDeleteRange adds a change to a body.
func appendDeleteRange(body, from, to []byte) []byte {
	body = append(binary.AppendUvarint(append(body, kindDeleteRange), uint64(len(from))), from...)
	return append(binary.AppendUvarint(body, uint64(len(to))), to...)
}

// parseChanges calls each with the changes of a body. It reads nothing else, whatever is in it, and refuses
// changes that no owner makes.
func parseChanges(rest []byte, each func(kind byte, key, value []byte) error) error {
	for len(rest) > 0 {
		kind := rest[0]
		key, after, ok := cutText(rest[1:])
		var value []byte
		if ok && kind != kindDelete {
			value, after, ok = cutText(after)
		}
		if !ok {
			return ErrBody
		}
		if err := checkChange(kind, key, value); err != nil {
			return err
		}
		if err := each(kind, key, value); err != nil {
			return err
		}
		rest = after
	}
	return nil
}

// checkChange refuses what no owner puts into a body.
func checkChange(kind byte, key, value []byte) error {
	own := foreign(key)
	switch {
	case own && (kind != kindSet || string(key) != revisionKey):
		return fmt.Errorf("%w: it changes the key %s", ErrBody, showText(string(key)))
	case own:
		if r, n := binary.Uvarint(value); n <= 0 || n != len(value) || r > uint64(store.MaxRevision) {
			return fmt.Errorf("%w: its revision counter is unreadable", ErrBody)
		}
	case kind == kindSet:
		if _, _, err := split(value); err != nil {
			return fmt.Errorf("%w: %w", ErrBody, err)
		}
	case kind == kindDeleteRange:
		if bytes.Compare(key, value) >= 0 {
			return fmt.Errorf("%w: it deletes a range that ends before it begins", ErrBody)
		}
	case kind != kindDelete:
		return fmt.Errorf("%w: it has a change of the kind %d", ErrBody, kind)
	}
	return nil
}

// cutText cuts a text after its length from the beginning of what is stored.
func cutText(stored []byte) (text, rest []byte, ok bool) {
	size, n := binary.Uvarint(stored)
	if n <= 0 || size > uint64(len(stored)-n) {
		return nil, nil, false
	}
	end := n + int(size)
	return stored[n:end:end], stored[end:], true
}
