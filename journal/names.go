package journal

import (
	"bytes"
	"encoding/binary"
	"slices"
	"strings"

	"github.com/cespare/xxhash/v2"
	"github.com/oklog/ulid/v2"

	"kernos/kernel"
	"kernos/message"
	"kernos/store"
)

// The keys of the journal, behind the byte of its keyspace. Numbers in keys are
// big-endian, so that they sort.
const (
	spacePages  = 'p' // seq of the first record → page
	spaceNames  = 'n' // name, seq of a page → nothing
	spaceBlocks = 'b' // bucket, seq of a flush's first page → names and their pages
	spaceTails  = 't' // when and who → page with records that are in a batch's company
	spaceSpans  = 's' // seq of the first record → span
	spaceWords  = 'w' // word, 0, seq of the first record of a span → postings

	spaceTotals  = 'm' // → totals: what has been written
	spaceDropped = 'd' // → Dropped
	spaceIndexed = 'x' // → how far the words are indexed
)

func key(space byte, parts ...[]byte) []byte {
	return append([]byte{store.SpaceJournal, space}, bytes.Join(parts, nil)...)
}

func seqKey(space byte, seq uint64) []byte {
	return binary.BigEndian.AppendUint64(append(make([]byte, 0, 10), store.SpaceJournal, space), seq)
}

// keySeq reads the number at the end of a key.
func keySeq(k []byte) uint64 {
	if len(k) < 8 {
		return 0
	}
	return binary.BigEndian.Uint64(k[len(k)-8:])
}

// A name is something that records are found by: what it is in the first byte, and a
// hash of it in the others. Two names may be the same number; who finds a record
// looks at it.
type name uint64

// What a name names. One tag for ids wherever they stand makes one key of a request and
// its reply on the same page.
const (
	tagID     = 'i' // an id, a causation or a correlation
	tagType   = 't'
	tagDomain = 'd'
	tagKind   = 'k'
	tagCode   = 'c'
)

func nameOf(tag byte, text []byte) name {
	return name(uint64(tag)<<56 | xxhash.Sum64(text)>>8)
}

func codeName(code int) name { return name(uint64(tagCode)<<56 | uint64(uint32(code))) }

// appendKey appends the key that says that a page has the name.
func (n name) appendKey(dst []byte, seq uint64) []byte {
	dst = append(dst, store.SpaceJournal, spaceNames)
	dst = binary.BigEndian.AppendUint64(dst, uint64(n))
	return binary.BigEndian.AppendUint64(dst, seq)
}

// nearby is how many milliseconds may lie between a time in an id and the record of its
// message for the message to be found by that time.
const nearby = 1

// idTime is the time that an id says it was made, if it says so.
func idTime(id []byte) (int64, bool) {
	var u ulid.ULID
	if len(id) != ulid.EncodedSize || u.UnmarshalText(id) != nil {
		return 0, false
	}
	return int64(u.Time()), true
}

// foundByTime reports whether a message has an id that the kernel has just made: such an
// id says when the message was recorded. Half of all messages are like that, and need
// no key. It depends on nothing but the record, for the keys must be found again
// when the record is dropped.
func (r *record) foundByTime() bool {
	if r.way() == kernel.In || message.Kind(r.kind).Asks() {
		return false
	}
	t, ok := idTime(r.id)
	return ok && t <= r.at && r.at-t <= nearby && plain(r.id)
}

// names appends the names of a record.
func (r *record) names(dst []name) []name {
	if !r.foundByTime() {
		dst = append(dst, nameOf(tagID, r.id))
	}
	if len(r.causation) > 0 {
		dst = append(dst, nameOf(tagID, r.causation))
	}
	if len(r.correlation) > 0 {
		dst = append(dst, nameOf(tagID, r.correlation))
	}
	dst = append(dst, nameOf(tagType, r.typ), nameOf(tagKind, r.kind))
	if i := bytes.IndexByte(r.typ, '.'); i > 0 {
		dst = append(dst, nameOf(tagDomain, r.typ[:i]))
	}
	if code := r.code(); code != 0 {
		dst = append(dst, codeName(code))
	}
	return dst
}

// distinct sorts names and drops repetitions.
func distinct(names []name) []name {
	slices.Sort(names)
	return slices.Compact(names)
}

// pageNames appends the names of a page, each once.
func pageNames(dst []name, seq uint64, value []byte) ([]name, error) {
	start := len(dst)
	p, err := readPage(seq, value)
	if err != nil {
		return dst, err
	}
	var r record
	for {
		ok, err := p.next(&r)
		if err != nil {
			return dst, err
		}
		if !ok {
			return dst[:start+len(distinct(dst[start:]))], nil
		}
		dst = r.names(dst)
	}
}

// naming is the names of a record as the message tells them, without reading its text
// again. It says what record.names says; Check compares.
type naming struct {
	known bool   // not for errors, whose codes are in their data
	names []name // of the causation and the correlation
	id    name
	made  int64 // when the kernel made the id, or 0
	typ   message.Type
	kind  message.Kind
}

func (n *naming) read(r *kernel.Record) {
	m := r.Message
	n.names, n.made, n.typ, n.kind = n.names[:0], 0, m.Type, m.Kind
	if n.known = m.Kind != message.KindError && plainText(string(m.Metadata.ID)) && plainText(m.Metadata.Correlation) && plainText(string(m.Metadata.Causation)); !n.known {
		return
	}
	if r.Way != kernel.In && !m.Kind.Asks() && len(m.Metadata.ID) == ulid.EncodedSize {
		if t, ok := idTime([]byte(m.Metadata.ID)); ok {
			n.made = t
		}
	}
	n.id = textName(tagID, string(m.Metadata.ID))
	if m.Metadata.Causation != "" {
		n.names = append(n.names, textName(tagID, string(m.Metadata.Causation)))
	}
	if m.Metadata.Correlation != "" {
		n.names = append(n.names, textName(tagID, m.Metadata.Correlation))
	}
}

// sort is a type and a kind that a page has. Most messages of a page are of few sorts.
type sort struct {
	typ  message.Type
	kind message.Kind
}

// names appends the names of a sort.
func (s sort) names(dst []name) []name {
	dst = append(dst, textName(tagType, string(s.typ)), textName(tagKind, string(s.kind)))
	if i := strings.IndexByte(string(s.typ), '.'); i > 0 {
		dst = append(dst, textName(tagDomain, string(s.typ[:i])))
	}
	return dst
}

// foundByTime is record.foundByTime of a record at a time.
func (n *naming) foundByTime(at int64) bool {
	return n.made != 0 && n.made <= at && at-n.made <= nearby
}

func textName(tag byte, text string) name {
	return name(uint64(tag)<<56 | xxhash.Sum64String(text)>>8)
}

// plainText reports whether a text is written in JSON as it is.
func plainText(s string) bool {
	for i := 0; i < len(s); i++ {
		if c := s[i]; c < ' ' || c >= 0x7F || c == '"' || c == '\\' {
			return false
		}
	}
	return true
}
