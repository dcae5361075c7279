package pebble

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"iter"
	"math/bits"
)

// Pebble's manifest and its logs are files of records: blocks, in each of which are
// chunks with a header of checksum, length and type. The last records of a file may be torn
// by a power cut. This file distinguishes that from damage, which Pebble does not always.
const (
	recordBlock  = 32 << 10
	recordHeader = 7
)

// checkRecords finds a broken chunk in a manifest. The last record may be broken by a
// power cut, in ways that a change to the file would not look like: it ends early or in
// zeros, or only its end is there.
func checkRecords(text []byte) error {
	broken := -1
	for at := 0; at+recordHeader <= len(text); {
		rest := recordBlock - at%recordBlock
		if rest < recordHeader {
			at += rest
			continue
		}
		chunk := text[at:min(at+rest, len(text))]
		n, ok := validChunk(chunk)
		switch {
		case ok && broken >= 0 && beginsRecord(chunk):
			return fmt.Errorf("the record at byte %d is broken, and the one at byte %d is not", broken, at)
		case ok:
			at += n
		case broken < 0 && changed(chunk):
			return fmt.Errorf("the record at byte %d is broken", at)
		case broken < 0:
			broken = at
			at++ // the next chunk of this block may be anywhere
		case at/recordBlock == broken/recordBlock:
			at++
		default:
			at += rest
		}
	}
	if broken == 0 || len(text) < recordHeader {
		return errors.New("its first record is broken")
	}
	return nil
}

// beginsRecord reports whether a valid chunk is the first one of a record.
func beginsRecord(chunk []byte) bool { return chunk[6] == 1 || chunk[6] == 2 }

// validChunk returns the length of the chunk that text begins with, if it is one.
func validChunk(text []byte) (int, bool) {
	if len(text) < recordHeader || text[6] < 1 || text[6] > 4 {
		return 0, false
	}
	end := recordHeader + int(binary.LittleEndian.Uint16(text[4:6]))
	if end > len(text) {
		return 0, false
	}
	return end, binary.LittleEndian.Uint32(text) == checksum(text[6:end])
}

// changed reports whether the broken chunk that text begins with was whole once: it is
// all there, too short to be written in pieces, and does not end in what was never
// written.
func changed(text []byte) bool {
	length := int(binary.LittleEndian.Uint16(text[4:6]))
	end := recordHeader + length
	return length > 0 && length < 4096 && end <= len(text) && text[end-1] != 0
}

// checksum returns that of Pebble's files.
func checksum(b []byte) uint32 { return mask(crc32.Update(0, castagnoli, b)) }

func mask(crc uint32) uint32   { return bits.RotateLeft32(crc, -15) + 0xa282ead8 }
func unmask(sum uint32) uint32 { return bits.RotateLeft32(sum-0xa282ead8, 15) }

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// A chunk of a log has in its header, too, the number of the log and, unless it is of the
// old form, up to where the log had been synced when it was written, or less.
const (
	oldLogHeader   = 11
	logHeader      = 19
	firstOldChunk  = 5 // the types of its chunks
	firstSyncChunk = 9
	lastLogChunk   = 12
)

// headerOf returns how long the header of a chunk of a type is; 0 if logs have no such type.
func headerOf(kind byte) int {
	switch {
	case kind < firstOldChunk || kind > lastLogChunk:
		return 0
	case kind < firstSyncChunk:
		return oldLogHeader
	}
	return logHeader
}

// A logChunk is a chunk of a log that is whole.
type logChunk struct {
	length int
	synced uint64 // offset up to which the log was synced before this chunk
}

// readChunk reads the chunk at a place of a log.
func readChunk(text []byte, at int, number uint32) (c logChunk, ok bool) {
	text = blockFrom(text, at)
	if len(text) < oldLogHeader || binary.LittleEndian.Uint32(text[7:]) != number {
		return c, false
	}
	header := headerOf(text[6])
	c.length = header + int(binary.LittleEndian.Uint16(text[4:]))
	if header == 0 || c.length > len(text) || binary.LittleEndian.Uint32(text) != checksum(text[6:c.length]) {
		return c, false
	}
	if header == logHeader {
		c.synced = binary.LittleEndian.Uint64(text[oldLogHeader:])
	}
	return c, true
}

// blockFrom returns a block from a place in it on.
func blockFrom(text []byte, at int) []byte {
	return text[at:min(at-at%recordBlock+recordBlock, len(text))]
}

// checkLog finds the first chunk that is broken, and reports it if that was not a power cut.
func checkLog(text []byte, number uint32) error {
	for at := 0; at < len(text); {
		c, ok := readChunk(text, at, number)
		rest := blockFrom(text, at)
		switch {
		case ok:
			at += c.length
		case len(rest) < recordHeader || len(rest) < logHeader && len(bytes.Trim(rest, "\x00")) == 0:
			at += len(rest) // no header fits into it
		case oneByteOff(text, at, number):
			return fmt.Errorf("a byte of the record at byte %d was changed", at)
		case wasSynced(text, at, number):
			return fmt.Errorf("the record at byte %d is broken, and had been synced when others were written", at)
		default:
			return nil
		}
	}
	return nil
}

// wasSynced reports whether the chunk at a place had been synced, by the numbers in the chunks after
// it.
//
// The number that they have is less than what was synced if blocks were filled between two
// syncs, since Pebble does not count all of these. So it is of use, too, that it grows:
// it does when a sync has ended. If it had grown between a first and a second chunk, that sync
// ended when the broken one was written; and if it had grown once more before a third, another
// sync has begun and ended since, and this one covered the broken one.
func wasSynced(text []byte, at int, number uint32) bool {
	grown, last := 0, uint64(0)
	for c := range chunksAfter(text, at, number) {
		if c.synced > uint64(at) {
			return true
		}
		if grown == 0 || c.synced > last {
			grown++
			last = c.synced
		}
		if grown == 3 {
			return true
		}
	}
	return false
}

// chunksAfter returns the chunks after a broken one. In its block, the next one may begin
// anywhere.
func chunksAfter(text []byte, broken int, number uint32) iter.Seq[logChunk] {
	return func(yield func(logChunk) bool) {
		for at := broken + 1; at < len(text); {
			switch c, ok := readChunk(text, at, number); {
			case ok && !yield(c):
				return
			case ok:
				at += c.length
			case at/recordBlock == broken/recordBlock:
				at++
			default:
				at += len(blockFrom(text, at))
			}
		}
	}
}

const (
	sector    = 512  // how much a disk writes in one piece, at least
	longChunk = 4096 // what is longer has too many bytes for chance not to hit one of them
)

// oneByteOff reports whether there would be a chunk at a place of a log if a single byte were
// another. No power cut does that, unless the byte is the only one of the chunk in its
// sector. Chance does, to one torn chunk in some thousands, which is why a single bit only is
// looked for in a long one.
func oneByteOff(text []byte, at int, number uint32) bool {
	rest := blockFrom(text, at)
	if len(rest) < logHeader && bytes.Count(rest, []byte{0}) == len(rest)-1 {
		return true // padding of zeros, since no header fits here
	}
	for _, header := range [...]int{oldLogHeader, logHeader} {
		off, end := offByte(rest, number, header)
		first := off == 0 && (at+1)%sector == 0
		last := off == end-1 && (at+off)%sector == 0
		if end > 0 && !first && !last {
			return true
		}
	}
	return false
}

// offByte returns which byte of a chunk with a header of a length is off, if one is, and the
// length of the chunk; it is 0 if the chunk doesn't exist.
func offByte(rest []byte, number uint32, header int) (off, end int) {
	if len(rest) < header {
		return 0, 0
	}
	stored, length := binary.LittleEndian.Uint32(rest), binary.LittleEndian.Uint16(rest[4:])
	if stored == 0 && length == 0 {
		return 0, 0 // the end that Pebble writes, or what was never written
	}
	const sum, body, fixed = 0, 6, oldLogHeader // the type and the number end there
	wrong := differing(binary.LittleEndian.Uint32(rest[7:]), number)
	if headerOf(rest[body]) != header {
		wrong++
	}
	if end := header + int(length); end <= len(rest) && wrong <= 1 {
		is := checksum(rest[body:end])
		if wrong == 0 && differing(stored, is) == 1 {
			return sum + bits.TrailingZeros32(stored^is)/8, end
		}
		off, by := errorAt(unmask(stored)^unmask(is), end-body)
		off += body
		if by != 0 && (wrong == 0 || off < fixed) && (end <= longChunk || bits.OnesCount8(by) == 1) {
			return off, end
		}
	}
	if wrong > 0 {
		return 0, 0
	}
	// It may have another length, in one byte.
	crc, want := ^uint32(0), ^unmask(stored)
	for end := body; end < len(rest); {
		crc = castagnoli[byte(crc)^rest[end]] ^ crc>>8
		end++
		if crc == want && differing(uint32(end-header), uint32(length)) == 1 {
			return 4, end
		}
	}
	return 0, 0
}

func differing(a, b uint32) (n int) {
	for x := a ^ b; x != 0; x >>= 8 {
		if byte(x) != 0 {
			n++
		}
	}
	return n
}

// errorAt returns which of length bytes is another than the one that the checksum was made
// of, and by which bits, if it is a single one; otherwise by is 0. diff is what the two
// checksums differ in. They are linear: an error of one byte makes an entry of the table of
// them, and each byte after it makes another number of that, which can be undone.
func errorAt(diff uint32, length int) (at int, by byte) {
	for at = length - 1; at >= 0 && diff != 0; at-- {
		index := byTopByte[diff>>24]
		if castagnoli[index] == diff {
			return at, index
		}
		diff = (diff^castagnoli[index])<<8 | uint32(index)
	}
	return 0, 0
}

// byTopByte has, for each first byte of an entry of the table, which entry that is.
var byTopByte = func() (all [256]byte) {
	for i, entry := range castagnoli {
		all[entry>>24] = byte(i)
	}
	return all
}()
