package journal

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"
	"strconv"

	"kernos/internal/jsonscan"
	"kernos/kernel"
	"kernos/message"
)

// A page is some records one behind the other: what is written, read and found at once.
//
//	version   1 byte
//	count     4 bytes, of records
//	base      8 bytes, the time of the first record in milliseconds since 1970
//	checksum  4 bytes, CRC-32C of all the other bytes
//	records
//
// A record is the message as it goes over a wire, with what must be known beside it:
//
//	flags     1 byte: its way in the lowest two bits, and whether it is redacted
//	at        uvarint, milliseconds after base
//	metadata  uvarint, where in the text the metadata begin, so that who looks for an id
//	          need not go through the data
//	length    uvarint, of the text
//	text
//
// Numbers of a fixed size are big-endian. Pages are built in memory with a base that the
// flush may still move.
const (
	pageVersion = 1
	pageHeader  = 1 + 4 + 8 + 4
	pageSize    = 4096 // a page that has so many bytes is closed

	flagWay      = 3
	flagRedacted = 4
)

// page is a page that is being filled or waits to be written.
type page struct {
	buf        []byte // room for the header, then the records
	count      int
	base, last int64     // the times of the first and the last record
	tails      []besides // tails that are of no use when the page is written
	lost       lost      // what the page says was not recorded
	names      []name    // of its records, if named says that all of them have told
	named      int
	sorts      [4]sort // that have been named, the last ones
	sortsAt    int
}

// besides is a tail: a record beside a batch.
type besides struct {
	key  []byte
	text []byte // if it mentions blobs
}

func newPage(buf []byte) *page { return &page{buf: append(buf[:0], make([]byte, pageHeader)...)} }

// add appends a record that came at a time, or later if the page's last one did.
func (p *page) add(at int64, e *encoded, text []byte) {
	if p.count == 0 {
		p.base, p.last = at, at
	}
	p.last = max(p.last, at)
	b := append(p.buf, e.flags)
	b = binary.AppendUvarint(b, uint64(p.last-p.base))
	b = binary.AppendUvarint(b, uint64(e.metadata))
	b = binary.AppendUvarint(b, uint64(len(text)))
	p.buf = append(b, text...)
	p.count++
}

// name adds the names of the record that was added last.
func (p *page) name(n *naming) {
	if !n.known {
		return
	}
	p.named++
	p.names = append(p.names, n.names...)
	if s := (sort{n.typ, n.kind}); !slices.Contains(p.sorts[:], s) {
		p.sorts[p.sortsAt%len(p.sorts)] = s
		p.sortsAt++
		p.names = s.names(p.names)
	}
	if !n.foundByTime(p.last) {
		p.names = append(p.names, n.id)
	}
}

// seal writes the header. The page begins no earlier than floor.
func (p *page) seal(floor int64) {
	if p.base < floor {
		p.base, p.last = floor, p.last+floor-p.base
		p.named = -1 // some names depend on the time
	}
	p.buf[0] = pageVersion
	binary.BigEndian.PutUint32(p.buf[1:], uint32(p.count))
	binary.BigEndian.PutUint64(p.buf[5:], uint64(p.base))
	binary.BigEndian.PutUint32(p.buf[13:], checksum(p.buf))
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// checksum is that of a page that has its header but for the checksum.
func checksum(b []byte) uint32 {
	return crc32.Update(crc32.Checksum(b[:13], castagnoli), castagnoli, b[pageHeader:])
}

// encoded is what a record says beside its text.
type encoded struct {
	flags    byte
	metadata int // offset in the text
}

// beforeMetadata stands before the id in every text.
const beforeMetadata = `,"metadata":{"id":`

// encode appends the text of a record with the data that may be recorded.
func encode(dst []byte, r *kernel.Record, data []byte, redacted bool) ([]byte, encoded) {
	m := message.Message{Kind: r.Message.Kind, Type: r.Message.Type, Data: data, Metadata: r.Message.Metadata}
	start := len(dst)
	dst = message.Append(dst, &m)
	e := encoded{flags: byte(r.Way) & flagWay}
	if redacted {
		e.flags |= flagRedacted
	}
	// Where the metadata begin, if nothing had to be written otherwise than it came.
	const around = len(`{"kind":"","type":"","data":`)
	text := dst[start:]
	if at := around + len(m.Kind) + len(m.Type) + len(data); at < len(text) && bytes.HasPrefix(text[at:], []byte(beforeMetadata)) {
		e.metadata = at
	} else {
		// A quote in a string has a backslash before it, so this can't be part of one.
		e.metadata = max(0, bytes.LastIndex(text, []byte(beforeMetadata)))
	}
	return dst, e
}

// errPage is the error of a page that can't be read.
var errPage = errors.New("the page is damaged")

// pageReader goes through the records of a page.
type pageReader struct {
	seq  uint64 // of the next record
	base int64
	left int
	rest []byte
}

// readPage checks a page and returns a reader of its records. The page must not change
// while it is read.
func readPage(seq uint64, b []byte) (pageReader, error) {
	switch {
	case len(b) < pageHeader:
		return pageReader{}, fmt.Errorf("%w: it has %d bytes", errPage, len(b))
	case b[0] != pageVersion:
		return pageReader{}, fmt.Errorf("%w: it is of version %d, and only version %d is known", errPage, b[0], pageVersion)
	case binary.BigEndian.Uint32(b[13:]) != checksum(b):
		return pageReader{}, fmt.Errorf("%w: its checksum does not fit", errPage)
	}
	return pageReader{seq: seq, base: pageTime(b), left: int(binary.BigEndian.Uint32(b[1:])), rest: b[pageHeader:]}, nil
}

// pageTime is the time of a page's first record, pageCount how many it has. The page has
// a header.
func pageTime(b []byte) int64 { return int64(binary.BigEndian.Uint64(b[5:])) }
func pageCount(b []byte) int  { return int(binary.BigEndian.Uint32(b[1:])) }

// next reads the next record into r, which then aliases the page, and reports whether
// there was one.
func (p *pageReader) next(r *record) (bool, error) {
	ok, err := p.step(r)
	if ok {
		err = r.read()
	}
	return ok && err == nil, err
}

// step is next without a look into the text: read does that.
func (p *pageReader) step(r *record) (bool, error) {
	if p.left == 0 {
		if len(p.rest) > 0 {
			return false, fmt.Errorf("%w: %d bytes behind the last record", errPage, len(p.rest))
		}
		return false, nil
	}
	b := p.rest
	if len(b) == 0 {
		return false, fmt.Errorf("%w: it ends before its last record", errPage)
	}
	flags := b[0]
	at, n1 := binary.Uvarint(b[1:])
	if n1 <= 0 {
		return false, fmt.Errorf("%w: a time can't be read", errPage)
	}
	metadata, n2 := binary.Uvarint(b[1+n1:])
	if n2 <= 0 {
		return false, fmt.Errorf("%w: an offset can't be read", errPage)
	}
	length, n3 := binary.Uvarint(b[1+n1+n2:])
	start := 1 + n1 + n2 + n3
	if n3 <= 0 || length > uint64(len(b)-start) || metadata > length {
		return false, fmt.Errorf("%w: a length can't be right", errPage)
	}
	end := start + int(length)
	r.seq, r.at, r.flags = p.seq, p.base+int64(at), flags
	r.text, r.metadata = b[start:end:end], int(metadata)
	p.rest = b[end:]
	p.seq++
	p.left--
	return true, nil
}

// record is a record of a page. Its slices alias the page where they can.
type record struct {
	seq      uint64
	at       int64
	flags    byte
	text     []byte
	metadata int

	kind, typ, data            []byte
	id, correlation, causation []byte
	idempotencyKey, version    []byte
	timestamp                  int64
}

func (r *record) way() kernel.Way { return kernel.Way(r.flags & flagWay) }
func (r *record) redacted() bool  { return r.flags&flagRedacted != 0 }

// read finds the parts of the text, which is as message.Append writes it. The data are
// not looked at: a handler may have said what is no JSON.
func (r *record) read() error {
	s := textReader{b: r.text[:r.metadata]}
	s.skip(`{"kind":"`)
	r.kind = nil
	if n := bytes.IndexByte(s.rest(), '"'); n >= 0 {
		r.kind = s.rest()[:n]
		s.i += n
	}
	s.skip(`","type":`)
	r.typ = s.string()
	s.skip(`,"data":`)
	r.data = s.rest()
	if s.failed {
		return fmt.Errorf("%w: record %d does not begin as a message does", errPage, r.seq)
	}
	s = textReader{b: r.text, i: r.metadata}
	s.skip(beforeMetadata)
	r.id = s.string()
	s.skip(`,"timestamp":`)
	r.timestamp = s.number()
	r.correlation = s.optional(`,"correlation":`)
	r.causation = s.optional(`,"causation":`)
	r.idempotencyKey = s.optional(`,"idempotencyKey":`)
	r.version = s.optional(`,"schemaVersion":`)
	s.skip("}}")
	if s.failed || s.i != len(r.text) {
		return fmt.Errorf("%w: record %d does not end as a message does", errPage, r.seq)
	}
	return nil
}

// textReader reads text of a known form. After a failure it goes nowhere.
type textReader struct {
	b      []byte
	i      int
	failed bool
}

func (s *textReader) rest() []byte { return s.b[s.i:] }

func (s *textReader) skip(text string) {
	if s.failed || len(s.b)-s.i < len(text) || string(s.b[s.i:s.i+len(text)]) != text {
		s.failed = true
		return
	}
	s.i += len(text)
}

// string reads a string, as part of the text if it has no escapes.
func (s *textReader) string() []byte {
	if s.failed || s.i >= len(s.b) || s.b[s.i] != '"' {
		s.failed = true
		return nil
	}
	start := s.i
	end, escaped, err := jsonscan.String(s.b, start)
	if err != nil {
		s.failed = true
		return nil
	}
	s.i = end
	if escaped {
		return []byte(jsonscan.Unquote(s.b[start:end]))
	}
	return s.b[start+1 : end-1]
}

func (s *textReader) optional(name string) []byte {
	if s.failed || len(s.b)-s.i < len(name) || string(s.b[s.i:s.i+len(name)]) != name {
		return nil
	}
	s.i += len(name)
	return s.string()
}

func (s *textReader) number() int64 {
	end := s.i
	for end < len(s.b) && (s.b[end] == '-' || '0' <= s.b[end] && s.b[end] <= '9') {
		end++
	}
	n, err := strconv.ParseInt(string(s.b[s.i:end]), 10, 64)
	if err != nil {
		s.failed = true
	}
	s.i = end
	return n
}

// code is the code of a message that is an error, or 0.
func (r *record) code() int {
	if string(r.kind) != string(message.KindError) {
		return 0
	}
	// As Error.Append writes it; otherwise as anybody may.
	s := textReader{b: r.data}
	s.skip(`{"code":`)
	if !s.failed {
		if n := s.number(); !s.failed {
			return int(n)
		}
	}
	var scan jsonscan.Scanner
	if scan.Text(r.data) != nil || r.data[jsonscan.Space(r.data, 0)] != '{' {
		return 0
	}
	code := 0
	jsonscan.Members(r.data, 0, func(name, value []byte) bool {
		if jsonscan.Unquote(name) != "code" {
			return true
		}
		code, _ = strconv.Atoi(string(value))
		return false
	})
	return code
}

// entry is the record for a reader, who may keep it. Data that are no JSON become a
// string.
func (r *record) entry(scan *jsonscan.Scanner) Entry {
	data := bytes.Clone(r.data)
	if scan.Text(data) != nil {
		data = jsonscan.AppendQuoted(nil, string(r.data))
	}
	return Entry{Seq: r.seq, At: r.at, Way: r.way(), Redacted: r.redacted(), Message: message.Message{
		Kind: message.Kind(r.kind),
		Type: message.Type(r.typ),
		Data: data,
		Metadata: message.Metadata{
			ID:             message.ID(r.id),
			Timestamp:      r.timestamp,
			Correlation:    string(r.correlation),
			Causation:      message.ID(r.causation),
			IdempotencyKey: string(r.idempotencyKey),
			SchemaVersion:  string(r.version),
		},
	}}
}
