package secret

import (
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

// FuzzHiding holds the reader that sees a body in pieces against a replacement in the
// whole.
func FuzzHiding(f *testing.F) {
	f.Add("hello secret world", "secret", "wor")
	f.Add("aaaaaaaa", "aaaa", "aaa")
	f.Add("ababcababd", "ababd", "ababcabab")
	f.Add(strings.Repeat("x", 3*hidingChunk)+"secret", "secret", "xxxx")
	f.Fuzz(func(t *testing.T, body, one, two string) {
		if len(strings.Trim(one, " \t")) < MinValue || len(strings.Trim(two, " \t")) < MinValue {
			return
		}
		s := Opened([]string{one, two})
		want := s.Hide(body)
		for name, r := range map[string]io.Reader{
			"whole": strings.NewReader(body), "bytes": iotest.OneByteReader(strings.NewReader(body)),
			"halves": iotest.HalfReader(strings.NewReader(body)), "with the end": iotest.DataErrReader(strings.NewReader(body)),
		} {
			got, err := io.ReadAll(s.Reader(r))
			if err != nil || string(got) != want {
				t.Errorf("%s: got %q, %v; want %q", name, got, err, want)
			}
		}
		// A body that is cut off ends with its error, and behind what came.
		got, err := io.ReadAll(s.Reader(io.MultiReader(strings.NewReader(body), iotest.ErrReader(io.ErrUnexpectedEOF))))
		if err != io.ErrUnexpectedEOF || string(got) != want {
			t.Errorf("cut off: got %q, %v; want %q", got, err, want)
		}
	})
}
