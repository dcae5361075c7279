package journal

import (
	"encoding/binary"
	"errors"
	"fmt"

	"kernos/store"
)

// The keys of the journal, after the byte of its keyspace. Numbers in keys are
// big-endian, so that they sort.
const (
	spacePages  = 'p' // seq of the first record → page
	spaceNames  = 'n' // name, seq of a page → nothing
	spaceBlocks = 'b' // bucket, seq of a flush's first page → names and their pages
	spaceTails  = 't' // time, journal → page with the records of a batch
	spaceSpans  = 's' // seq of the first record → span
	spaceWords  = 'w' // word, 0, seq of the first record of a span → postings

	spaceMeaning = 'v' // vectors of messages: see store/vectors

	spaceTotals  = 'm' // → totals: what has been written
	spaceDropped = 'd' // → Dropped
	spaceIndexed = 'x' // → how far the words are indexed
)

func key(space byte) []byte { return []byte{store.SpaceJournal, space} }

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

func encodeUvarints(numbers ...uint64) (b []byte) {
	for _, n := range numbers {
		b = binary.AppendUvarint(b, n)
	}
	return b
}

// readUvarints reads what encodeUvarints has written.
func readUvarints(b []byte, numbers ...*uint64) bool {
	for _, n := range numbers {
		v, k := binary.Uvarint(b)
		if k <= 0 {
			return false
		}
		*n, b = v, b[k:]
	}
	return len(b) == 0
}

// damaged returns the error for what the journal has not written, or not so.
func damaged(err error, text string) error {
	return store.Errorf(500, err, "%s; bring back a backup with kernos restore", text)
}

func damagedPage(err error, k []byte) error {
	return damaged(err, fmt.Sprintf("The journal's page %d can't be read", keySeq(k)))
}

func damagedBlock(err error, k []byte) error {
	return damaged(err, fmt.Sprintf("The journal's names from page %d on can't be read", keySeq(k)))
}

var errSpan = errors.New("the span is damaged")
