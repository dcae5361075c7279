package journal

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"iter"
	"slices"

	"github.com/klauspost/compress/s2"

	"kernos/internal/jsonscan"
	"kernos/kernel"
	"kernos/kernel/principal"
	"kernos/message"
)

// A page is some records one after the other: what is written, read and found at once.
// Heads have everything of the records but their data, which stands apart: finding
// records, and how they belong together, takes their heads only.
//
//	version   1 byte
//	count     4 bytes, of records
//	base      8 bytes, the time of the first record in milliseconds since 1970
//	heads     4 bytes, how many bytes the heads take as they are stored
//	checksum  4 bytes, CRC-32C of all the other bytes
//	heads     packed
//	data      packed, one after the other
//
// A head is:
//
//	length    uvarint, of what follows after data
//	data      uvarint, how many bytes of data the record has
//	flags     1 byte: its way, whether it is redacted, and its kind
//	at        uvarint, milliseconds after base
//	timestamp uvarint
//	texts     the length as a uvarint and the bytes of each: type, id, correlation,
//	          causation, idempotency key, schema version
//	code      varint, of an error only
//	sender    nothing for the owner within the process; otherwise 1 byte of flags, and texts:
//	          the id and the name of the principal, the wire, and the members of metadata that
//	          Kernos doesn't know, if the flags report them
//
// What is packed begins with a byte that reports whether it is compressed. Numbers of a fixed
// size are big-endian. Pages are built in memory with a base that the flush may still move.
const (
	pageVersion = 2
	pageHeader  = checksumAt + 4
	checksumAt  = 1 + 4 + 8 + 4
	pageSize    = 16 << 10 // the size, before compression, at which a page is closed

	flagWay      = 3
	flagRedacted = 4
	flagKind     = 3 // how far the kind is to the left

	senderClaim = 1 // the message answers nothing
	senderExtra = 2 // its metadata has members that Kernos doesn't know

	plainBytes = 0       // how something is packed: not at all
	s2Bytes    = 1       // or with S2
	minPacked  = 1 << 10 // fewer bytes are not packed
	maxPacked  = 8 << 20 // bytes that are compressed at once
	maxRecord  = 1 << 31 // more bytes of data than any record has
)

// kinds are the kinds as heads have them.
var kinds = [...]message.Kind{message.KindCommand, message.KindQuery, message.KindEvent, message.KindReply, message.KindError}

// page is a page that is being filled or waits to be written.
type page struct {
	heads, data []byte
	head        []byte // the head that is being written
	count       int
	base, last  int64  // the times of the first and the last record
	tails       []tail // tails to delete when the page is written
	lost        Losses // messages that were not recorded, as the page reports them
}

// A tail is a copy of records that a batch carries, until a page has them.
type tail struct {
	key  tailKey
	data []byte // to let go of the blobs that they mention; nil if there are none
}

// A tailKey is the key of a tail. No other tail has it, and it sorts by time.
type tailKey [2 + 8 + 8]byte

func (p *page) size() int { return len(p.heads) + len(p.data) }

// space returns how many bytes the page takes, filled or not.
func (p *page) space() int { return cap(p.heads) + cap(p.data) }

func (p *page) reset() {
	clear(p.tails) // releases what the tails refer to
	*p = page{heads: p.heads[:0], data: p.data[:0], head: p.head, tails: p.tails[:0]}
}

// An item is a record that is to be added to a page: a message with the data that may be recorded.
type item struct {
	message *message.Message
	data    []byte
	extra   string // of its metadata
	flags   byte
	sender  sender
}

// A sender is where a message came from, as a head has it.
type sender struct {
	principal, name, wire string // the first two are "" for the owner, except in a browser; all for the owner within the process
	claim                 bool
}

func senderOf(r *kernel.Record) sender {
	s := sender{wire: r.Sender.Wire(), claim: r.Claim}
	if p := r.Sender.Principal(); p.Name() != string(principal.OwnerID) {
		s.principal, s.name = string(p.ID()), r.Sender.Name()
	}
	return s
}

func newItem(r *kernel.Record) item {
	data, redacted := kernel.Redact(*r)
	data, briefer := r.Brief(data)
	extra, clipped := kernel.RedactExtra(r.Message)
	i := item{message: r.Message, data: data, extra: extra, sender: senderOf(r), flags: byte(r.Way)&flagWay | byte(slices.Index(kinds[:], r.Message.Kind))<<flagKind}
	if redacted || briefer || clipped {
		i.flags |= flagRedacted
	}
	return i
}

// add appends a record that came at a time, or later if the page's last one did.
func (p *page) add(at int64, i *item) {
	if p.count == 0 {
		p.base, p.last = at, at
	}
	p.last = max(p.last, at)
	p.count++
	before := len(p.data)
	switch {
	case len(i.data) == 0:
		p.data = append(p.data, "null"...)
	case bytes.IndexByte(i.data, '\n') >= 0:
		p.data = jsonscan.AppendCompact(p.data, i.data)
	default:
		p.data = append(p.data, i.data...)
	}
	m := i.message
	b := append(p.head[:0], i.flags)
	b = binary.AppendUvarint(b, uint64(p.last-p.base))
	b = binary.AppendUvarint(b, uint64(m.Metadata.Timestamp))
	b = appendText(b, string(m.Type))
	b = appendText(b, string(m.Metadata.ID))
	b = appendText(b, m.Metadata.Workflow())
	b = appendText(b, string(m.Metadata.Causation))
	b = appendText(b, m.Metadata.IdempotencyKey)
	b = appendText(b, m.Metadata.SchemaVersion)
	if m.Kind == message.KindError {
		b = binary.AppendVarint(b, int64(errorCode(p.data[before:])))
	}
	if s := i.sender; s != (sender{}) || i.extra != "" {
		var flags byte
		if s.claim {
			flags = senderClaim
		}
		if i.extra != "" {
			flags |= senderExtra
		}
		b = appendText(appendText(appendText(append(b, flags), s.principal), s.name), s.wire)
		if i.extra != "" {
			b = appendText(b, i.extra)
		}
	}
	p.head = b
	p.heads = binary.AppendUvarint(p.heads, uint64(len(b)))
	p.heads = binary.AppendUvarint(p.heads, uint64(len(p.data)-before))
	p.heads = append(p.heads, b...)
}

func appendText(dst []byte, s string) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(s))), s...)
}

// move makes sure that the page begins no earlier than a time.
func (p *page) move(floor int64) {
	if p.base < floor {
		p.base, p.last = floor, p.last+floor-p.base
	}
}

func (p *page) append(dst []byte) []byte {
	start := len(dst)
	dst = slices.Grow(dst, pageHeader+p.size()+64)
	dst = append(dst, make([]byte, pageHeader)...)
	dst = appendPacked(dst, p.heads)
	middle := len(dst)
	dst = appendPacked(dst, p.data)
	b := dst[start:]
	b[0] = pageVersion
	binary.BigEndian.PutUint32(b[1:], uint32(p.count))
	binary.BigEndian.PutUint64(b[5:], uint64(p.base))
	binary.BigEndian.PutUint32(b[13:], uint32(middle-start-pageHeader))
	binary.BigEndian.PutUint32(b[checksumAt:], checksum(b))
	return dst
}

// reader returns a reader of the page's records, which then alias it.
func (p *page) reader(seq uint64) pageReader {
	return pageReader{seq: seq, base: p.base, left: p.count, rest: p.heads, data: p.data}
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// checksum returns that of a page that has its header but for the checksum.
func checksum(b []byte) uint32 {
	return crc32.Update(crc32.Checksum(b[:checksumAt], castagnoli), castagnoli, b[pageHeader:])
}

// appendPacked appends bytes, compressed if that makes them fewer.
func appendPacked(dst, b []byte) []byte {
	if len(b) >= minPacked && len(b) <= maxPacked {
		dst = slices.Grow(dst, 1+s2.MaxEncodedLen(len(b)))
		if packed := s2.Encode(dst[len(dst)+1:cap(dst)], b); len(packed) < len(b) {
			dst = append(dst, s2Bytes)
			return dst[:len(dst)+len(packed)] // Encode has written it there
		}
	}
	return append(append(dst, plainBytes), b...)
}

// unpack returns what was packed, in a buffer if it is large enough.
func unpack(buf, packed []byte) ([]byte, error) {
	if len(packed) > 0 {
		switch b := packed[1:]; packed[0] {
		case plainBytes:
			return append(buf[:0], b...), nil
		case s2Bytes:
			if n, err := s2.DecodedLen(b); err != nil || n > maxPacked {
				break
			}
			if b, err := s2.Decode(buf[:cap(buf)], b); err == nil {
				return b, nil
			}
		}
	}
	return nil, fmt.Errorf("%w: a part of it can't be unpacked", errPage)
}

var errPage = errors.New("the page is damaged")

// pageReader goes through the records of one page after the other, in memory that it uses
// again.
type pageReader struct {
	seq  uint64 // number of the next record
	base int64
	left int
	rest []byte // heads that have not been read
	at   int    // offset of the next record's data

	packed []byte // the data that have not been loaded
	heads  []byte
	data   []byte
}

// open checks a page and begins to read its heads. A caller that wants data calls load, while the
// page is as it was.
func (p *pageReader) open(seq uint64, b []byte) error {
	switch {
	case len(b) < pageHeader:
		return fmt.Errorf("%w: it has %d bytes", errPage, len(b))
	case b[0] != pageVersion:
		return fmt.Errorf("%w: it is of version %d, and only version %d is known", errPage, b[0], pageVersion)
	case binary.BigEndian.Uint32(b[checksumAt:]) != checksum(b):
		return fmt.Errorf("%w: its checksum does not fit", errPage)
	}
	rest, middle := b[pageHeader:], binary.BigEndian.Uint32(b[13:])
	if uint64(middle) > uint64(len(rest)) {
		return fmt.Errorf("%w: it ends before its data", errPage)
	}
	heads, err := unpack(p.heads, rest[:middle])
	if err != nil {
		return err
	}
	*p = pageReader{seq: seq, base: pageTime(b), left: pageCount(b), rest: heads, packed: rest[middle:], heads: heads, data: p.data[:0]}
	return nil
}

// load reads the data of the page, so that next gives records theirs.
func (p *pageReader) load() (err error) {
	if p.packed != nil {
		p.data, err = unpack(p.data, p.packed)
		p.packed = nil
	}
	return err
}

// records goes through all records of a page with their data. A record is valid until the
// next step, and so is what it aliases until another page is opened.
func (p *pageReader) records(seq uint64, b []byte) iter.Seq2[*record, error] {
	return func(yield func(*record, error) bool) {
		err := p.open(seq, b)
		if err == nil {
			err = p.load()
		}
		var r record
		for err == nil {
			var ok bool
			if ok, err = p.next(&r); ok && !yield(&r, nil) || !ok && err == nil {
				return
			}
		}
		yield(nil, err)
	}
}

// pageTime returns the time of a page's first record, pageCount how many it has. The page has
// a header.
func pageTime(b []byte) int64 { return int64(binary.BigEndian.Uint64(b[5:])) }
func pageCount(b []byte) int  { return int(binary.BigEndian.Uint32(b[1:])) }

// next reads the next record into r, which then aliases the reader's memory, and reports
// whether there was one.
func (p *pageReader) next(r *record) (bool, error) {
	if p.left == 0 {
		if len(p.rest) > 0 || p.packed == nil && p.at < len(p.data) {
			return false, fmt.Errorf("%w: there is something behind its last record", errPage)
		}
		return false, nil
	}
	head, data, rest, err := p.lengths()
	if err != nil {
		return false, err
	}
	r.seq, r.from, r.to, r.data = p.seq, p.at, p.at+data, nil
	if err := r.read(p.base, rest[:head:head]); err != nil {
		return false, err
	}
	p.pass(data, rest[head:])
	if p.packed == nil {
		err = p.fill(r)
	}
	return err == nil, err
}

// lengths reads how long the next head and its data are, and returns what follows.
func (p *pageReader) lengths() (head, data int, rest []byte, err error) {
	h := headReader{b: p.rest}
	length, n := h.number(), h.number()
	if h.failed || length > uint64(len(h.b)) || n > maxRecord {
		return 0, 0, nil, fmt.Errorf("%w: a length of record %d can't be right", errPage, p.seq)
	}
	return int(length), int(n), h.b, nil
}

// pass goes past a record whose data has a length and whose head ends before the rest.
func (p *pageReader) pass(data int, rest []byte) {
	p.rest = rest
	p.at += data
	p.seq++
	p.left--
}

// seek goes past the records before the next one whose head has a text in it.
func (p *pageReader) seek(text []byte) error {
	at := bytes.Index(p.rest, text)
	if at < 0 {
		p.rest, p.left = nil, 0
		return nil
	}
	for behind := len(p.rest) - at; p.left > 0; {
		head, data, rest, err := p.lengths()
		if err != nil || len(rest)-head < behind {
			return err
		}
		p.pass(data, rest[head:])
	}
	return nil
}

// fill gives a record of the page its data, which have been loaded.
func (p *pageReader) fill(r *record) error {
	if r.to > len(p.data) {
		return fmt.Errorf("%w: it ends before the data of record %d", errPage, r.seq)
	}
	r.data = p.data[r.from:r.to:r.to]
	return nil
}

// headReader reads heads. After a failure it goes nowhere.
type headReader struct {
	b      []byte
	failed bool
}

func (h *headReader) byte() byte {
	if len(h.b) == 0 {
		h.failed = true
		return 0
	}
	c := h.b[0]
	h.b = h.b[1:]
	return c
}

func (h *headReader) number() uint64 {
	if len(h.b) > 0 && h.b[0] < 0x80 {
		v := h.b[0]
		h.b = h.b[1:]
		return uint64(v)
	}
	v, n := binary.Uvarint(h.b)
	if n <= 0 {
		h.failed, h.b = true, nil
		return 0
	}
	h.b = h.b[n:]
	return v
}

func (h *headReader) signed() int64 {
	v := h.number()
	return int64(v>>1) ^ -int64(v&1)
}

func (h *headReader) text() []byte {
	n := h.number()
	if n > uint64(len(h.b)) {
		h.failed, h.b = true, nil
		return nil
	}
	t := h.b[:n:n]
	h.b = h.b[n:]
	return t
}

// record is a record of a page. Its slices alias the memory of a pageReader.
type record struct {
	seq       uint64
	at        int64
	timestamp int64
	flags     byte
	code      int // the code of an error
	from, to  int // range of the record's data
	data      []byte

	typ, id, correlation, causation []byte
	idempotencyKey, version         []byte
	principal, name, wire           []byte // empty for the owner, within the process
	claim                           bool
	extra                           []byte
}

func (r *record) read(base int64, head []byte) error {
	h := headReader{b: head}
	r.flags = h.byte()
	r.at = base + int64(h.number())
	r.timestamp = int64(h.number())
	r.typ, r.id, r.correlation, r.causation = h.text(), h.text(), h.text(), h.text()
	r.idempotencyKey, r.version = h.text(), h.text()
	r.code = 0
	if int(r.flags>>flagKind) >= len(kinds) {
		h.failed = true
	} else if r.kind() == message.KindError {
		r.code = int(h.signed())
	}
	r.claim, r.principal, r.name, r.wire, r.extra = false, nil, nil, nil, nil
	if !h.failed && len(h.b) > 0 { // a home of version 0.5 or earlier has none
		flags := h.byte()
		r.claim = flags&senderClaim != 0
		r.principal, r.name, r.wire = h.text(), h.text(), h.text()
		if flags&senderExtra != 0 {
			r.extra = h.text()
		}
	}
	if h.failed || len(h.b) > 0 {
		return fmt.Errorf("%w: the head of record %d can't be read", errPage, r.seq)
	}
	return nil
}

func (r *record) kind() message.Kind { return kinds[r.flags>>flagKind] }
func (r *record) way() kernel.Way    { return kernel.Way(r.flags & flagWay) }
func (r *record) redacted() bool     { return r.flags&flagRedacted != 0 }

// principalID returns the principal of the message, as [Entry] has it.
func (r *record) principalID() principal.ID {
	if len(r.principal) == 0 {
		return principal.OwnerID
	}
	return principal.ID(r.principal)
}

// sender returns where the message came from.
func (r *record) sender() sender {
	return sender{principal: string(r.principal), name: string(r.name), wire: string(r.wire), claim: r.claim}
}

// message returns the record as a message, but for its data.
func (r *record) message() message.Message {
	return message.Message{
		Kind: r.kind(),
		Type: message.Type(r.typ),
		Metadata: message.Metadata{
			ID:             message.ID(r.id),
			Timestamp:      r.timestamp,
			Correlation:    string(r.correlation),
			Causation:      message.ID(r.causation),
			IdempotencyKey: string(r.idempotencyKey),
			SchemaVersion:  string(r.version),
			Extra:          string(r.extra),
		},
	}
}
