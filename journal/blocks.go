package journal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"iter"
	"math"
	"slices"

	"kernos/store"
)

// A key costs the store more than everything else that a message needs, so a flush with
// many names does not write a key for each. It writes blocks: a name belongs to one of
// 64 buckets, and a bucket has at most one block a flush, under the number of the flush's
// first page. Who looks for a name goes through the blocks of its bucket, which stand one
// behind the other. A flush with few names writes keys, which are found at once.
//
// A block lists names, the smallest first, each with its pages in order:
//
//	version   1 byte
//	checksum  4 bytes, CRC-32C of what follows
//	names:
//	  name    uvarint, the short name less the one before it
//	  pages   uvarint, how many have it
//	  page    uvarint for each, its number less the one before it; the first less that
//	          of the block
//
// It is dropped with the last of its pages. Until then it may list pages that are not
// there any more.
const (
	blockVersion = 1
	blockHeader  = 1 + 4

	manyNames  = 256 // a flush with more of them, counted for each page, writes blocks
	buckets    = 64
	shortBits  = 8 + 32
	pageBits   = 64 - 6 - shortBits
	maxInBlock = 1 << pageBits // pages of a flush that writes blocks
)

// short is what a block keeps of a name: what it names, and 32 bits of the hash. Who
// finds a page by it looks at the records anyway.
func (n name) short() uint64 { return uint64(n)>>56<<32 | uint64(uint32(n)) }

// bucket is taken from other bits of the hash than short.
func (n name) bucket() byte { return byte(n>>32) % buckets }

func blockKey(dst []byte, bucket byte, seq uint64) []byte {
	return binary.BigEndian.AppendUint64(append(dst, store.SpaceJournal, spaceBlocks, bucket), seq)
}

// A mention says that a page of a flush has a name: the bucket, the short name and which
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
	start := len(dst)
	dst = append(dst, blockVersion, 0, 0, 0, 0)
	before := uint64(0)
	for len(mentions) > 0 {
		n, short := 1, mentions[0].short()
		for n < len(mentions) && mentions[n].short() == short {
			n++
		}
		dst = binary.AppendUvarint(dst, short-before)
		dst = binary.AppendUvarint(dst, uint64(n))
		at := seqs[0]
		for _, m := range mentions[:n] {
			dst = binary.AppendUvarint(dst, seqs[m.page()]-at)
			at = seqs[m.page()]
		}
		before, mentions = short, mentions[n:]
	}
	binary.BigEndian.PutUint32(dst[start+1:], crc32.Checksum(dst[start+blockHeader:], castagnoli))
	return dst
}

// errBlock is the error of a block that can't be read.
var errBlock = errors.New("the block of names is damaged")

// blockReader goes through the names of a block.
type blockReader struct {
	first uint64 // the number of the block
	short uint64 // the name that it stands at
	seq   uint64 // the last page that it has read
	left  uint64 // pages of the name that it has not read
	rest  []byte
}

// readBlock checks a block and returns a reader that stands before its first name.
func readBlock(first uint64, b []byte) (blockReader, error) {
	switch {
	case len(b) < blockHeader:
		return blockReader{}, fmt.Errorf("%w: it has %d bytes", errBlock, len(b))
	case b[0] != blockVersion:
		return blockReader{}, fmt.Errorf("%w: it is of version %d, and only version %d is known", errBlock, b[0], blockVersion)
	case binary.BigEndian.Uint32(b[1:]) != crc32.Checksum(b[blockHeader:], castagnoli):
		return blockReader{}, fmt.Errorf("%w: its checksum does not fit", errBlock)
	}
	return blockReader{first: first, rest: b[blockHeader:]}, nil
}

// number reads a number.
func (r *blockReader) number() (uint64, bool) {
	if len(r.rest) > 0 && r.rest[0] < 0x80 { // most are small
		v := uint64(r.rest[0])
		r.rest = r.rest[1:]
		return v, true
	}
	v, n := binary.Uvarint(r.rest)
	if n <= 0 {
		return 0, false
	}
	r.rest = r.rest[n:]
	return v, true
}

// next goes to the next page of the next name, and reports whether there is one.
func (r *blockReader) next() (bool, error) {
	begins := r.left == 0
	if begins {
		if len(r.rest) == 0 {
			return false, nil
		}
		more, ok := r.number()
		if !ok || more == 0 || more > 1<<shortBits-1-r.short {
			return false, fmt.Errorf("%w: a name can't be right", errBlock)
		}
		r.short += more
		if r.left, ok = r.number(); !ok || r.left == 0 {
			return false, fmt.Errorf("%w: a name has no page", errBlock)
		}
		r.seq = r.first
	}
	more, ok := r.number()
	if !ok || more == 0 && !begins || more > math.MaxUint64-r.seq {
		return false, fmt.Errorf("%w: the number of a page can't be right", errBlock)
	}
	r.seq += more
	r.left--
	return true, nil
}

// find appends the pages of a block that have a name.
func (n name) find(dst []uint64, first uint64, b []byte) ([]uint64, error) {
	r, err := readBlock(first, b)
	if err != nil {
		return dst, err
	}
	for short := n.short(); ; {
		ok, err := r.next()
		if err != nil || !ok || r.short > short {
			return dst, err
		}
		if r.short == short {
			dst = append(dst, r.seq)
		}
	}
}

// lastPage returns the number of the last page of a block.
func lastPage(first uint64, b []byte) (uint64, error) {
	r, err := readBlock(first, b)
	if err != nil {
		return 0, err
	}
	for last := first; ; last = max(last, r.seq) {
		if ok, err := r.next(); err != nil || !ok {
			return last, err
		}
	}
}

// blocksWithin goes through the blocks of a bucket that may list pages within some bounds.
func blocksWithin(s store.Reader, bucket byte, span bounds, reverse bool) iter.Seq2[store.Entry, error] {
	return func(yield func(store.Entry, error) bool) {
		low := uint64(0)
		if span.low > 0 {
			// The block before may list pages from there on. Flushes follow each other, so
			// no block before that one does.
			for e, err := range s.Scan(store.Range{From: blockKey(nil, bucket, 0), To: blockKey(nil, bucket, span.low), Reverse: true}) {
				if err != nil {
					yield(store.Entry{}, err)
					return
				}
				low = keySeq(e.Key)
				break
			}
		}
		for e, err := range s.Scan(store.Range{From: blockKey(nil, bucket, low), To: blockKey(nil, bucket, span.high), Reverse: reverse}) {
			if !yield(e, err) || err != nil {
				return
			}
		}
	}
}

func damagedBlock(err error, k []byte) error {
	return damaged(err, fmt.Sprintf("The journal's names from page %d on can't be read", keySeq(k)))
}
