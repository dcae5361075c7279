package ndjson_test

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"kernos/message/ndjson"
)

// lazy is a LazyReader whose pieces come one by one: it finds nothing once before each.
type lazy struct {
	t      *testing.T
	pieces []string
	err    error // behind the last piece
}

func (l *lazy) Read([]byte) (int, error) {
	l.t.Error("Read is called on what can read lazily")
	return 0, io.EOF
}

func (l *lazy) ReadLazily(lend func() []byte, giveBack func()) (int, error) {
	if len(lend()) == 0 {
		l.t.Error("a buffer without room is lent")
	}
	giveBack()
	if len(l.pieces) == 0 {
		return 0, l.err
	}
	n := copy(lend(), l.pieces[0])
	if l.pieces[0] = l.pieces[0][n:]; l.pieces[0] == "" {
		l.pieces = l.pieces[1:]
	}
	return n, nil
}

func TestLazyReaderLosesNothingWhileItWaits(t *testing.T) {
	long := strings.Repeat("x", 16_384)
	older := strings.Repeat("y", 90_000)
	extend := &ndjson.ReaderOptions{Extend: func(head []byte) int {
		if head[0] == 'y' {
			return 100_000
		}
		return 0
	}}
	want := []string{"one", "two", long, older, tooLong, "three", "last"}
	text := "one\n\ntwo\r\n" + long + "\n" + older + "\n" + long + "xxxxx\nthree\nlast"
	for _, size := range []int{7, 1000, 40_000, len(text)} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			src := &lazy{t: t, err: io.EOF}
			for piece := range slices.Chunk([]byte(text), size) {
				src.pieces = append(src.pieces, string(piece))
			}
			if got := lines(t, ndjson.NewReader(src, extend)); !slices.Equal(got, want) {
				t.Errorf("got %d lines: %.200q", len(got), got)
			}
		})
	}
}

// Two readers share buffers, never at the same time.
func TestLazyReadersKeepTheirLinesApart(t *testing.T) {
	one := ndjson.NewReader(&lazy{t: t, pieces: []string{"a1\na", "2\n"}, err: io.EOF}, nil)
	two := ndjson.NewReader(&lazy{t: t, pieces: []string{"b1\nb", "2\n"}, err: io.EOF}, nil)
	var got []string
	for range 2 {
		a, err := one.Next()
		if err != nil {
			t.Fatal(err)
		}
		one.Detach() // a handler still uses it
		b, err := two.Next()
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, string(a), string(b))
	}
	if !slices.Equal(got, []string{"a1", "b1", "a2", "b2"}) {
		t.Errorf("got %q", got)
	}
}
