package journal

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"math"
	"slices"
	"testing"

	"kernos/internal/jsonscan"
	"kernos/journal/words"
	"kernos/message"
	"kernos/store"
)

// aPage is a page as it is written.
func aPage(messages ...message.Message) []byte {
	var p page
	for n := range messages {
		r := in(messages[n])
		i := newItem(&r)
		p.add(int64(1735000000000+n), &i)
	}
	return p.append(nil)
}

// FuzzPage reads pages that are anything: an error, or records that are whole.
func FuzzPage(f *testing.F) {
	m := command(`i"d`, "Memory.Set", `{"key":"a"}`)
	m.Metadata.Correlation, m.Metadata.Causation = "c", "é"
	f.Add(aPage(m, made(m.Reply(nil)), made(m.Fail(message.Errorf(404, "no")))))
	f.Add(aPage(slices.Repeat([]message.Message{m}, 50)...))
	f.Add(aPage())
	f.Add([]byte{})
	f.Add([]byte{pageVersion})
	f.Fuzz(func(t *testing.T, b []byte) {
		var p pageReader
		if err := p.open(1, b); err != nil && !errors.Is(err, errPage) {
			t.Fatalf("%v", err)
		}
		if len(b) < pageHeader {
			return
		}
		// As if the checksum was right.
		b = bytes.Clone(b)
		b[0] = pageVersion
		binary.BigEndian.PutUint32(b[checksumAt:], checksum(b))
		heads := 0
		err := p.open(1, b)
		if err == nil {
			_, err = pageNames(nil, &p)
			heads = int(p.seq) - 1
		}
		if err != nil && !errors.Is(err, errPage) {
			t.Fatal(err)
		}
		var scan jsonscan.Scanner
		tokens := words.Tokenizer{Emit: func([]byte) {}}
		records := 0
		for r, failed := range p.records(1, b) {
			if failed != nil {
				if !errors.Is(failed, errPage) {
					t.Fatal(failed)
				}
				return
			}
			records++
			e := r.entry(&scan)
			if scan.Text(e.Message.Data) != nil {
				t.Fatalf("%s is no JSON", e.Message.Data)
			}
			tokens.Message(r.typ, r.data)
		}
		if err != nil || heads != records {
			t.Fatalf("%d heads and %d records: %v", heads, records, err)
		}
	})
}

// aBlock is a block as it is written: some names on the pages 7, 20 and 300.
func aBlock(names ...name) []byte {
	var mentions []mention
	for i, n := range names {
		for page := i % 3; page < 3; page++ {
			mentions = append(mentions, mentionOf(n, page))
		}
	}
	slices.Sort(mentions)
	return appendBlock(nil, slices.Compact(mentions), []uint64{7, 20, 300})
}

// FuzzBlock reads blocks that are anything: an error, or names and pages in order.
func FuzzBlock(f *testing.F) {
	f.Add(aBlock(nameOf(tagID, []byte("a")), nameOf(tagType, []byte("b")), codeName(404)), uint64(7))
	f.Add(aBlock(), uint64(1))
	f.Add([]byte{}, uint64(0))
	f.Add([]byte{blockVersion, 0, 0, 0, 0, 255, 255, 255, 255}, uint64(math.MaxUint64))
	f.Fuzz(func(t *testing.T, b []byte, first uint64) {
		if _, err := readBlock(first, b); err != nil && !errors.Is(err, errBlock) {
			t.Fatal(err)
		}
		if len(b) < blockHeader {
			return
		}
		// As if the checksum was right.
		b = bytes.Clone(b)
		b[0] = blockVersion
		binary.BigEndian.PutUint32(b[1:], crc32.Checksum(b[5:], castagnoli))
		listed := map[uint64][]uint64{}
		r, err := readBlock(first, b)
		short, last := uint64(0), uint64(0)
		for ok := err == nil; ok; {
			if ok, err = r.next(); !ok {
				break
			}
			if r.seq < first || r.short < short || r.short == short && r.seq <= last {
				t.Fatalf("name %x on page %d after name %x on page %d", r.short, r.seq, short, last)
			}
			short, last = r.short, r.seq
			listed[short] = append(listed[short], last)
		}
		if err != nil && !errors.Is(err, errBlock) {
			t.Fatal(err)
		}
		end, failed := lastPage(first, b)
		if (failed == nil) != (err == nil) {
			t.Fatalf("read: %v; its last page: %v", err, failed)
		}
		for short, seqs := range listed {
			n := name(short>>32<<56 | short&math.MaxUint32)
			if got, failed := n.find(nil, first, b); err == nil && (failed != nil || !slices.Equal(got, seqs) || end < seqs[len(seqs)-1]) {
				t.Fatalf("name %x is on pages %v, want %v: %v", short, got, seqs, failed)
			}
		}
	})
}

func TestBlockThatIsChangedIsNotRead(t *testing.T) {
	b := aBlock(nameOf(tagID, []byte("a")), nameOf(tagType, []byte("b")))
	for i := range b {
		for bit := range 8 {
			c := bytes.Clone(b)
			c[i] ^= 1 << bit
			if _, err := readBlock(7, c); !errors.Is(err, errBlock) {
				t.Fatalf("bit %d of byte %d: %v", bit, i, err)
			}
		}
		if _, err := readBlock(7, b[:i]); !errors.Is(err, errBlock) {
			t.Fatalf("%d bytes: %v", i, err)
		}
	}
}

func TestPageThatIsChangedIsNotRead(t *testing.T) {
	b := aPage(query("a", "Ping", `{"payload":"hello"}`), query("b", "Ping", `1`))
	var p pageReader
	for i := range b {
		for bit := range 8 {
			c := bytes.Clone(b)
			c[i] ^= 1 << bit
			if err := p.open(1, c); !errors.Is(err, errPage) {
				t.Fatalf("bit %d of byte %d: %v", bit, i, err)
			}
		}
		if err := p.open(1, b[:i]); !errors.Is(err, errPage) {
			t.Fatalf("%d bytes: %v", i, err)
		}
	}
}

// FuzzPostings reads postings that are anything.
func FuzzPostings(f *testing.F) {
	f.Add([]byte{2, 1, 1, 4, 3, 1, 200, 1}, uint16(10))
	f.Add([]byte{1, 1, 1}, uint16(1))
	f.Add([]byte{}, uint16(0))
	f.Fuzz(func(t *testing.T, list []byte, n uint16) {
		x := search{scores: make([]float64, n), matched: make([]hasWords, n)}
		x.add(list, 1, 1)
		var a, b uint64
		readUvarints(list, &a, &b)
		_, _ = readSpan(store.Entry{Key: list, Value: list})
		_, _ = readTotals(list)
	})
}
