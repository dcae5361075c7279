package ndjson_test

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"kernos/message"
	"kernos/message/ndjson"
)

// split is what a Reader does, for input that is all there: it need not be careful
// with memory, so it can be simple.
func split(input []byte, limit, higher int) (lines []string) {
	for i, line := range bytes.Split(input, []byte("\n")) {
		line = bytes.TrimSuffix(line, []byte("\r"))
		if i == 0 {
			line = bytes.TrimPrefix(line, []byte("\xEF\xBB\xBF"))
		}
		most := limit
		if len(line) > limit && higher > limit {
			most = higher
		}
		if len(line) > most {
			lines = append(lines, tooLong)
			continue
		}
		if strings.Trim(string(line), " \t\r") != "" {
			lines = append(lines, string(line))
		}
	}
	return lines
}

// FuzzReader: any bytes, in pieces of any size, give the lines of the simple splitter.
func FuzzReader(f *testing.F) {
	full := strings.Repeat("x", message.MaxLine)
	for i, s := range []string{
		"", "\n", "a", "a\n", "a\r\nb\r\n", "a\r", "\r", "\r\r\n", "\xEF\xBB\xBFa\n\xEF\xBB\xBFb", "\n\n \t\r\n a \n", "a\nb\x00c\n\xff\n", "12345678\n123456789\n1234567890\r\n12345678901\r\n",
		full, full + "\n", full + "\r\n", full + "x\na", full + "x\r\n", full + full + full + "\na\n", strings.Repeat("abc\n", 3000), full + "\n" + full + "\r" + full,
		`{"kind":"query","type":"Ping","data":1,"metadata":{"id":"a","timestamp":1}}` + "\n" + `{"type":"query","name":"Ping","payload":1}` + "\n",
	} {
		f.Add([]byte(s), uint64(i), uint16(i*3), uint16(i*5))
		f.Add([]byte(s), uint64(i), uint16(0), uint16(0))
	}
	f.Fuzz(func(t *testing.T, input []byte, seed uint64, limit, higher uint16) {
		opts := &ndjson.ReaderOptions{Limit: int(limit)}
		if higher > 0 {
			opts.Extend = func(head []byte) int {
				if len(head) != opts.Limit && limit > 0 {
					t.Errorf("asked about %d bytes, the limit is %d", len(head), limit)
				}
				return int(higher)
			}
		}
		effective := int(limit)
		if effective == 0 {
			effective = message.MaxLine
		}
		want := split(input, effective, int(higher))

		r := rand.New(rand.NewPCG(seed, 0))
		src := &pieces{rest: input, r: r}
		reader := ndjson.NewReader(src, opts)
		var got []string
		var kept [][]byte
		var keptText []string
		for {
			line, err := reader.Next()
			var long *ndjson.TooLong
			if errors.As(err, &long) {
				got = append(got, tooLong)
				continue
			}
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, string(line))
			if r.IntN(4) == 0 {
				reader.Detach()
				kept, keptText = append(kept, line), append(keptText, string(line))
			}
		}
		if !slices.Equal(got, want) {
			t.Fatalf("limit %d, extended to %d\n got %d lines %.300q\nwant %d lines %.300q", effective, higher, len(got), got, len(want), want)
		}
		for i, line := range kept {
			if string(line) != keptText[i] {
				t.Fatalf("a line that was detached changed from %.100q to %.100q", keptText[i], line)
			}
		}
	})
}

// pieces hands out its bytes in pieces of random sizes, at times none, and at times
// the end together with the last piece.
type pieces struct {
	rest []byte
	r    *rand.Rand
}

func (p *pieces) Read(b []byte) (int, error) {
	most := []int{0, 1, 3, 100, 4096, len(b)}[p.r.IntN(6)]
	n := copy(b, p.rest[:min(most, len(p.rest))])
	p.rest = p.rest[n:]
	if len(p.rest) == 0 && (n == 0 || p.r.IntN(2) == 0) {
		return n, io.EOF
	}
	return n, nil
}
