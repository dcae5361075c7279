package journal

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"iter"
	"math"
	"slices"
	"sort"

	"kernos/store"
)

// The names of pages are written in one of two forms, and both are needed.
//
// A key per name costs the store more than everything else that a message needs: with keys
// only, recording a Ping takes 1.3 times the CPU time (BenchmarkPingRecorded in bench). So a
// flush with many names writes blocks: a name belongs to one of 64 buckets, and a bucket has
// at most one block per flush, under the number of the flush's first page. A reader that
// looks for a name scans the blocks of its bucket.
//
// A flush with few names writes keys, which are found at once. With blocks only, Get in a
// journal of 100,000 messages that came one at a time takes 3 ms instead of 0.05 ms, and ten
// times that with a million.
//
// A block lists names, the smallest first, and then the pages of each:
//
//	version   1 byte
//	checksum  4 bytes, CRC-32C of what follows
//	count     4 bytes, of names
//	names     5 bytes each, short names
//	pages, for each name:
//	  count   uvarint
//	  page    uvarint each, its number less the one before it; the first less that of
//	          the block
//
// It is dropped with the last of its pages. Until then it may list pages that were dropped.
const (
	blockVersion = 1
	blockHeader  = 1 + 4 + 4
	shortLength  = 5

	// A flush with more names, counted for each page, writes blocks.
	manyNames  = 256
	buckets    = 64
	shortBits  = 8 * shortLength
	pageBits   = 64 - 6 - shortBits
	maxInBlock = 1 << pageBits // pages of a flush that writes blocks
)

// short returns what a block keeps of a name: what it names, and 32 bits of the hash. The
// records of a page that is found by it are compared anyway.
func (n name) short() uint64 { return uint64(n)>>56<<32 | uint64(uint32(n)) }

// bucket is taken from other bits of the hash than short.
func (n name) bucket() byte { return byte(n>>32) % buckets }

func blockKey(dst []byte, bucket byte, seq uint64) []byte {
	return binary.BigEndian.AppendUint64(append(dst, store.SpaceJournal, spaceBlocks, bucket), seq)
}

// A mention is the note that a page of a flush has a name: the bucket, the short name and which
// page it is, in one number, so that sorting puts them into the order of blocks.
type mention uint64

func mentionOf(n name, page int) mention {
	return mention(uint64(n.bucket())<<(64-6) | n.short()<<pageBits | uint64(page))
}

func (m mention) bucket() byte  { return byte(m >> (64 - 6)) }
func (m mention) short() uint64 { return uint64(m>>pageBits) & (1<<shortBits - 1) }
func (m mention) page() int     { return int(m & (maxInBlock - 1)) }

// addBlocks adds the names of pages as blocks: mentions of the pages with these numbers,
// in any order.
func (bufs *flushBuffers) addBlocks(mentions []mention, seqs []uint64) {
	slices.Sort(mentions)
	mentions = slices.Compact(mentions) // two names may have the same short one
	for len(mentions) > 0 {
		n, bucket := 1, mentions[0].bucket()
		for n < len(mentions) && mentions[n].bucket() == bucket {
			n++
		}
		k, v := len(bufs.keys), len(bufs.blocks)
		// What append moves stays where it was for the batch.
		bufs.keys = blockKey(bufs.keys, bucket, seqs[0])
		bufs.blocks = appendBlock(bufs.blocks, mentions[:n], seqs)
		bufs.batch.Set(bufs.keys[k:len(bufs.keys):len(bufs.keys)], bufs.blocks[v:len(bufs.blocks):len(bufs.blocks)])
		mentions = mentions[n:]
	}
}

// appendBlock appends the block of some mentions, which are sorted and of one bucket.
func appendBlock(dst []byte, mentions []mention, seqs []uint64) []byte {
	start, count := len(dst), 0
	dst = append(dst, make([]byte, blockHeader)...)
	for i, m := range mentions {
		if i == 0 || m.short() != mentions[i-1].short() {
			short := m.short()
			dst = append(dst, byte(short>>32), byte(short>>24), byte(short>>16), byte(short>>8), byte(short))
			count++
		}
	}
	for len(mentions) > 0 {
		n := 1
		for n < len(mentions) && mentions[n].short() == mentions[0].short() {
			n++
		}
		dst = binary.AppendUvarint(dst, uint64(n))
		at := seqs[0]
		for _, m := range mentions[:n] {
			dst = binary.AppendUvarint(dst, seqs[m.page()]-at)
			at = seqs[m.page()]
		}
		mentions = mentions[n:]
	}
	block := dst[start:]
	block[0] = blockVersion
	binary.BigEndian.PutUint32(block[5:], uint32(count))
	binary.BigEndian.PutUint32(block[1:], crc32.Checksum(block[5:], castagnoli))
	return dst
}

var errBlock = errors.New("the block of names is damaged")

// blockReader goes through a block: to a name, then to its pages, then to the next name.
type blockReader struct {
	first uint64 // the number of the block
	names []byte // names not read yet
	lists []byte // page lists not read yet

	short uint64 // the current name
	seq   uint64 // the current page
	left  uint64 // pages of the current name not read yet
	fresh bool   // no page of the name has been reached
}

// readBlock checks a block and returns a reader that stands before its first name.
func readBlock(first uint64, b []byte) (blockReader, error) {
	switch {
	case len(b) < blockHeader:
		return blockReader{}, fmt.Errorf("%w: it has %d bytes", errBlock, len(b))
	case b[0] != blockVersion:
		return blockReader{}, fmt.Errorf("%w: it is of version %d, and only version %d is known", errBlock, b[0], blockVersion)
	case binary.BigEndian.Uint32(b[1:]) != crc32.Checksum(b[5:], castagnoli):
		return blockReader{}, fmt.Errorf("%w: its checksum does not fit", errBlock)
	}
	count, rest := binary.BigEndian.Uint32(b[5:]), b[blockHeader:]
	if uint64(count) > uint64(len(rest)/shortLength) {
		return blockReader{}, fmt.Errorf("%w: it can't have %d names", errBlock, count)
	}
	n := int(count) * shortLength
	return blockReader{first: first, names: rest[:n], lists: rest[n:]}, nil
}

// shortAt returns the short name at the beginning of some.
func shortAt(b []byte) uint64 {
	return uint64(b[0])<<32 | uint64(binary.BigEndian.Uint32(b[1:shortLength]))
}

func (r *blockReader) number() (uint64, bool) {
	v, n := binary.Uvarint(r.lists)
	if n <= 0 {
		return 0, false
	}
	r.lists = r.lists[n:]
	return v, true
}

// next goes to the next page of the name, or to the first page of the next name, and
// reports whether there is one.
func (r *blockReader) next() (bool, error) {
	if r.left == 0 {
		if len(r.names) == 0 {
			if len(r.lists) > 0 {
				return false, fmt.Errorf("%w: %d bytes behind the last page", errBlock, len(r.lists))
			}
			return false, nil
		}
		short := shortAt(r.names)
		if short <= r.short {
			return false, fmt.Errorf("%w: its names are not sorted", errBlock)
		}
		n, ok := r.number()
		if !ok || n == 0 {
			return false, fmt.Errorf("%w: a name has no page", errBlock)
		}
		r.names = r.names[shortLength:]
		r.short, r.left, r.seq, r.fresh = short, n, r.first, true
	}
	more, ok := r.number()
	if !ok || more == 0 && !r.fresh || more > math.MaxUint64-r.seq {
		return false, fmt.Errorf("%w: the number of a page can't be right", errBlock)
	}
	r.seq += more
	r.left--
	r.fresh = false
	return true, nil
}

// find appends the pages of a block that have a name. Most blocks that are searched do
// not have it, so it looks at names first.
func (n name) find(dst []uint64, first uint64, b []byte) ([]uint64, error) {
	r, err := readBlock(first, b)
	if err != nil {
		return dst, err
	}
	short := n.short()
	count := len(r.names) / shortLength
	if _, found := sort.Find(count, func(i int) int { return cmp.Compare(short, shortAt(r.names[i*shortLength:])) }); !found {
		return dst, nil
	}
	for {
		ok, err := r.next()
		if err != nil || !ok || r.short > short {
			return dst, err
		}
		if r.short == short {
			dst = append(dst, r.seq)
		}
	}
}

// eachListed calls visit for each page of each name of a block.
func eachListed(first uint64, b []byte, visit func(*blockReader)) error {
	r, err := readBlock(first, b)
	for ok := err == nil; ok; {
		if ok, err = r.next(); ok {
			visit(&r)
		}
	}
	return err
}

// lastPage returns the number of the last page of a block.
func lastPage(first uint64, b []byte) (uint64, error) {
	last := first
	err := eachListed(first, b, func(r *blockReader) { last = max(last, r.seq) })
	return last, err
}

// blocksWithin goes through the blocks of a bucket that may list pages within some bounds.
func blocksWithin(s store.Reader, bucket byte, span bounds, reverse bool) iter.Seq2[store.Entry, error] {
	return func(yield func(store.Entry, error) bool) {
		low := uint64(0)
		if span.low > 0 {
			// The block before may list pages from there on. Flushes follow each other, so
			// no block before that one does.
			e, err := store.First(s, store.Range{From: blockKey(nil, bucket, 0), To: blockKey(nil, bucket, span.low), Reverse: true})
			if err != nil {
				yield(store.Entry{}, err)
				return
			}
			low = keySeq(e.Key)
		}
		for e, err := range s.Scan(store.Range{From: blockKey(nil, bucket, low), To: blockKey(nil, bucket, span.high), Reverse: reverse}) {
			if !yield(e, err) || err != nil {
				return
			}
		}
	}
}
