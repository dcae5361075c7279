package journal

import (
	"bytes"
	"encoding/binary"
	"slices"

	"github.com/cespare/xxhash/v2"
	"github.com/oklog/ulid/v2"

	"kernos/kernel"
	"kernos/store"
)

// A name is something that records are found by: what it is in the first byte, and a
// hash of it in the others. Two names may be the same number, so a record that
// is found is compared.
type name uint64

// What a name names. One tag for ids wherever they stand makes one key of a request and
// its reply on the same page.
const (
	tagID     = 'i' // an id, a causation or a correlation
	tagType   = 't'
	tagDomain = 'd'
	tagKind   = 'k'
	tagCode   = 'c'

	tagPrincipal = 'p' // the id or the name of one that is not the owner
)

func nameOf(tag byte, text []byte) name {
	return name(uint64(tag)<<56 | xxhash.Sum64(text)>>8)
}

func codeName(code int) name { return name(uint64(tagCode)<<56 | uint64(uint32(code))) }

// appendKey appends the key of the fact that a page has the name.
func (n name) appendKey(dst []byte, seq uint64) []byte {
	dst = append(dst, store.SpaceJournal, spaceNames)
	dst = binary.BigEndian.AppendUint64(dst, uint64(n))
	return binary.BigEndian.AppendUint64(dst, seq)
}

// nearby is how many milliseconds may lie between a time in an id and the record of its
// message for the message to be found by that time.
const nearby = 1

func idTime(id []byte) (int64, bool) {
	var u ulid.ULID
	if len(id) != ulid.EncodedSize || u.UnmarshalText(id) != nil {
		return 0, false
	}
	return int64(u.Time()), true
}

// foundByTime reports whether a message has an id that the kernel has just made: such an
// id has the time when the message was recorded. Half of all messages are like that, and need
// no key. It depends on nothing but the record, for the keys must be found again
// when the record is dropped.
func (r *record) foundByTime() bool {
	if r.way() == kernel.In || r.kind().Asks() {
		return false
	}
	t, ok := idTime(r.id)
	return ok && t <= r.at && r.at-t <= nearby
}

// names appends the names of a record that are its own, or a few others', unless they were
// just appended.
func (r *record) names(dst []name) []name {
	if !r.foundByTime() {
		dst = appendNew(dst, nameOf(tagID, r.id))
	}
	if len(r.causation) > 0 {
		dst = appendNew(dst, nameOf(tagID, r.causation))
	}
	if len(r.correlation) > 0 {
		dst = appendNew(dst, nameOf(tagID, r.correlation))
	}
	if r.code != 0 {
		dst = append(dst, codeName(r.code))
	}
	return dst
}

// appendNew appends a name that is not among the last few. An answer has the names of the
// request before it.
func appendNew(dst []name, n name) []name {
	if slices.Contains(dst[max(0, len(dst)-4):], n) {
		return dst
	}
	return append(dst, n)
}

// commonNames appends the names of a record that most of a page's records have.
func (r *record) commonNames(dst []name) []name {
	dst = append(dst, nameOf(tagType, r.typ), nameOf(tagKind, []byte(r.kind())))
	if i := bytes.IndexByte(r.typ, '.'); i > 0 {
		dst = append(dst, nameOf(tagDomain, r.typ[:i]))
	}
	return dst
}

func distinct(names []name) []name {
	slices.Sort(names)
	return slices.Compact(names)
}

// storedNames returns the names of a page that is stored, each once, in memory that is used
// again.
func storedNames(dst []name, p *pageReader, seq uint64, b []byte) ([]name, error) {
	if err := p.open(seq, b); err != nil {
		return dst, err
	}
	names, err := pageNames(dst[:0], p)
	return distinct(names), err
}

// pageNames appends the names of the records that a reader comes to, some more than once.
func pageNames(dst []name, p *pageReader) ([]name, error) {
	names := dst[len(dst):]      // the names of this page only
	var types [len(kinds)][]byte // the type that was named last, of each kind
	var principal, name []byte   // the principal that was named last, and its name
	var r record
	for {
		ok, err := p.next(&r)
		if err != nil {
			return dst, err
		}
		if !ok {
			return append(dst, names...), nil
		}
		if last := &types[r.flags>>flagKind]; *last == nil || !bytes.Equal(*last, r.typ) {
			*last = r.typ
			names = r.commonNames(names)
		}
		if len(r.principal) > 0 && (!bytes.Equal(principal, r.principal) || !bytes.Equal(name, r.name)) {
			principal, name = r.principal, r.name
			names = append(names, nameOf(tagPrincipal, r.principal), nameOf(tagPrincipal, r.name))
			for _, part := range parts(r.name) {
				names = append(names, nameOf(tagPrincipal, []byte(part)))
			}
		}
		names = r.names(names)
	}
}
