package ndjson_test

import (
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"testing"

	"kernos/message"
	"kernos/message/ndjson"
)

// endless is a line of n bytes that is nowhere in memory, and a short line behind it.
type endless struct{ left int }

var manyX = strings.Repeat("x", 1<<20)

func (e *endless) Read(b []byte) (int, error) {
	if e.left < 0 {
		return 0, io.EOF
	}
	if e.left == 0 {
		e.left = -1
		return copy(b, "\nnext\n"), nil
	}
	n := copy(b[:min(e.left, len(b))], manyX)
	e.left -= n
	return n, nil
}

// allocated is how many bytes f allocates in all, whether it keeps them or not.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// Clauses: M24-8.3-1 M24-8.3-2
func TestLineOf200MBCostsLessThan1MB(t *testing.T) {
	for _, test := range []struct {
		name string
		size int
		opts *ndjson.ReaderOptions
	}{
		{"by default", 200 << 20, nil},
		{"extended and still over", 20 << 20, &ndjson.ReaderOptions{Extend: func([]byte) int { return 100_000 }}},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := ndjson.NewReader(&endless{left: test.size}, test.opts)
			var got []string
			if n := allocated(func() { got = lines(t, r) }); n > 1<<20 {
				t.Errorf("it allocated %d bytes", n)
			}
			if !slices.Equal(got, []string{tooLong, "next"}) {
				t.Errorf("got %q", got)
			}
		})
	}
}

func TestManyLongLinesReuseTheirMemory(t *testing.T) {
	full := strings.Repeat("x", message.MaxLine) + "\n"
	r := ndjson.NewReader(strings.NewReader(strings.Repeat(full, 1000)), nil)
	if n := allocated(func() {
		for range 1000 {
			if _, err := r.Next(); err != nil {
				t.Error(err)
			}
		}
	}); n > 1<<20 {
		t.Errorf("1000 lines allocated %d bytes", n)
	}
}

func TestExtendIsAskedOnceAboutALineThatOutgrowsTheLimit(t *testing.T) {
	const limit = 10
	long := func(n int) string { return strings.Repeat("x", n) }
	for _, test := range []struct {
		name   string
		input  string
		higher int
		asked  int
		want   []string
	}{
		{"not asked about a line that fits", long(10) + "\n", 20, 0, []string{long(10)}},
		{"nor for a CR", long(10) + "\r\n", 20, 0, []string{long(10)}},
		{"a byte more", long(11) + "\n", 20, 1, []string{long(11)}},
		{"up to the higher limit", long(20) + "\n", 20, 1, []string{long(20)}},
		{"up to the higher limit, CRLF", long(20) + "\r\n", 20, 1, []string{long(20)}},
		{"one CR of two belongs to the line end", long(10) + "\r\r\n", 20, 1, []string{long(10) + "\r"}},
		{"up to the higher limit, at the end", long(20), 20, 1, []string{long(20)}},
		{"above it", long(21) + "\na\n", 20, 1, []string{tooLong, "a"}},
		{"far above it", long(500_000) + "\na\n", 20, 1, []string{tooLong, "a"}},
		{"refused", long(11) + "\na\n", 0, 1, []string{tooLong, "a"}},
		{"refused, far above", long(500) + "\na\n", 0, 1, []string{tooLong, "a"}},
		{"no higher than before", long(11) + "\na\n", limit, 1, []string{tooLong, "a"}},
		{"asked again about the next", long(15) + "\n" + long(16) + "\n", 20, 2, []string{long(15), long(16)}},
		{"for this line only", long(15) + "\n" + long(21) + "\n" + long(10) + "\n", 20, 2, []string{long(15), tooLong, long(10)}},
		{"larger than any buffer", long(1<<20) + "\n" + long(1<<20+1) + "\na", 1 << 20, 2, []string{long(1 << 20), tooLong, "a"}},
	} {
		for name, chunking := range chunkings {
			if len(test.input) > 100_000 && name == "with pauses" {
				continue // it is slow and shows nothing new
			}
			t.Run(test.name+"/"+name, func(t *testing.T) {
				asked := 0
				r := ndjson.NewReader(chunking(strings.NewReader(test.input)), &ndjson.ReaderOptions{Limit: limit, Extend: func(head []byte) int {
					asked++
					if string(head) != long(limit) {
						t.Errorf("asked about %q, want the first %d bytes", head, limit)
					}
					return test.higher
				}})
				if got := lines(t, r); !slices.Equal(got, test.want) {
					t.Errorf("got %.100q, want %.100q", got, test.want)
				}
				if asked != test.asked {
					t.Errorf("asked %d times, want %d", asked, test.asked)
				}
			})
		}
	}
}

func TestTooLongNamesTheLimitThatCounted(t *testing.T) {
	for _, n := range []int{21, 5000} { // seen whole, and not
		r := ndjson.NewReader(strings.NewReader(strings.Repeat("x", n)+"\n"), &ndjson.ReaderOptions{Limit: 10, Extend: func([]byte) int { return 20 }})
		_, err := r.Next()
		var long *ndjson.TooLong
		if !errors.As(err, &long) || long.Limit != 20 {
			t.Errorf("a line of %d bytes: got %v", n, err)
		}
	}
}

func TestDetachKeepsTheLastLineWhileTheReaderGoesOn(t *testing.T) {
	var input strings.Builder
	var want []string
	for i := range 3000 {
		want = append(want, fmt.Sprintf("line %d %s", i, strings.Repeat("x", i%300)))
		input.WriteString(want[i] + "\n")
	}
	for name, chunking := range chunkings {
		for _, every := range []int{1, 3, 100} {
			t.Run(fmt.Sprintf("%s/every %d", name, every), func(t *testing.T) {
				r := ndjson.NewReader(chunking(strings.NewReader(input.String())), nil)
				kept := map[int][]byte{}
				for i := range want {
					line, err := r.Next()
					if err != nil || string(line) != want[i] {
						t.Fatalf("line %d: got %.20q, %v", i, line, err)
					}
					if i%every == 0 {
						r.Detach()
						kept[i] = line
					}
				}
				for i, line := range kept {
					if string(line) != want[i] {
						t.Fatalf("line %d was kept and became %.20q", i, line)
					}
				}
			})
		}
	}
}
