package ndjson_test

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"kernos/message"
	"kernos/message/ndjson"
)

// tooLong stands for a line that was refused for its length.
const tooLong = "<too long>"

// lines reads all lines to the end of the input, which must be io.EOF.
func lines(t *testing.T, r *ndjson.Reader) []string {
	t.Helper()
	var got []string
	for {
		line, err := r.Next()
		var long *ndjson.TooLong
		switch {
		case errors.As(err, &long):
			got = append(got, tooLong)
		case err == io.EOF:
			return got
		case err != nil:
			t.Fatal(err)
		default:
			got = append(got, string(line))
		}
	}
}

// chunkings are ways in which the same bytes may come in.
var chunkings = map[string]func(io.Reader) io.Reader{
	"as they are":      func(r io.Reader) io.Reader { return r },
	"byte by byte":     iotest.OneByteReader,
	"by halves":        iotest.HalfReader,
	"end with the end": iotest.DataErrReader,
	"with pauses":      func(r io.Reader) io.Reader { return &pausing{r: iotest.OneByteReader(r)} },
}

// pausing returns nothing and no error before each read that returns something.
type pausing struct {
	r    io.Reader
	turn bool
}

func (p *pausing) Read(b []byte) (int, error) {
	if p.turn = !p.turn; p.turn {
		return 0, nil
	}
	return p.r.Read(b)
}

func TestReaderSplitsLinesHoweverTheyComeIn(t *testing.T) {
	full := strings.Repeat("x", message.MaxLine)
	for _, test := range []struct {
		name  string
		input string
		want  []string
	}{
		{"nothing", "", nil},
		{"one line", "a\n", []string{"a"}},
		{"no newline at the end", "a\nb", []string{"a", "b"}},
		{"CRLF", "a\r\nb\r\n", []string{"a", "b"}},
		{"CR at the end of the input", "a\r", []string{"a"}},
		{"CR inside of a line", "a\rb\n", []string{"a\rb"}},
		{"two CRs", "a\r\r\n", []string{"a\r"}},
		{"blank lines", "\n\r\n \t \n  \r\na\n\n\nb\n \n", []string{"a", "b"}},
		{"only blank lines", "\n\n  ", nil},
		{"space around is kept", "  a \t\n", []string{"  a \t"}},
		{"what is not quite blank", "\v\n\u00A0\n\x00\n", []string{"\v", "\u00A0", "\x00"}},
		{"byte-order mark", "\xEF\xBB\xBFa\nb\n", []string{"a", "b"}},
		{"byte-order mark alone", "\xEF\xBB\xBF\na\n", []string{"a"}},
		{"byte-order mark, then the end", "\xEF\xBB\xBF", nil},
		{"byte-order mark later", "a\n\xEF\xBB\xBFb\n", []string{"a", "\xEF\xBB\xBFb"}},
		{"byte-order mark behind a blank line", "\n\xEF\xBB\xBFa\n", []string{"\xEF\xBB\xBFa"}},
		{"two byte-order marks", "\xEF\xBB\xBF\xEF\xBB\xBFa\n", []string{"\xEF\xBB\xBFa"}},
		{"half a byte-order mark", "\xEF\xBBa\n", []string{"\xEF\xBBa"}},

		{"as long as allowed", full + "\na\n", []string{full, "a"}},
		{"as long as allowed, CRLF", full + "\r\na\n", []string{full, "a"}},
		{"as long as allowed, at the end", full, []string{full}},
		{"as long as allowed, CR at the end", full + "\r", []string{full}},
		{"a byte too long", full + "x\na\n", []string{tooLong, "a"}},
		{"a byte too long, CRLF", full + "x\r\na\n", []string{tooLong, "a"}},
		{"a byte too long, at the end", full + "x", []string{tooLong}},
		{"a byte too long, CR at the end", full + "x\r", []string{tooLong}},
		{"a byte too long that is a CR", full + "\r\r\na\n", []string{tooLong, "a"}},
		{"much too long", full + full + full + "\r\na", []string{tooLong, "a"}},
		{"much too long, at the end", full + full + full, []string{tooLong}},
		{"too long twice", full + "x\n" + full + full + "\na\n", []string{tooLong, tooLong, "a"}},
		{"too long and blank", strings.Repeat(" ", message.MaxLine+1) + "\na\n", []string{tooLong, "a"}},
		{"many", strings.Repeat("abc\n", 20000), slices.Repeat([]string{"abc"}, 20000)},
		{"many long ones", strings.Repeat(full+"\n", 20), slices.Repeat([]string{full}, 20)},
	} {
		for name, chunking := range chunkings {
			t.Run(test.name+"/"+name, func(t *testing.T) {
				got := lines(t, ndjson.NewReader(chunking(strings.NewReader(test.input)), nil))
				if !slices.Equal(got, test.want) {
					t.Errorf("got %d lines, want %d: %.200q", len(got), len(test.want), got)
				}
			})
		}
	}
}

func TestLimitIsASetting(t *testing.T) {
	r := ndjson.NewReader(strings.NewReader("1234\n12345\n1234\r\n12345\r\n1234\r"), &ndjson.ReaderOptions{Limit: 4})
	want := []string{"1234", tooLong, "1234", tooLong, "1234"}
	if got := lines(t, r); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestTooLongLineSaysItsLimitAndWhomToAnswer(t *testing.T) {
	text := `{"kind":"query","type":"Memory.Get","data":"` + strings.Repeat("x", 20000) + `","metadata":{"id":"q1","timestamp":1}}`
	for name, chunking := range chunkings {
		t.Run(name, func(t *testing.T) {
			r := ndjson.NewReader(chunking(strings.NewReader(text+"\n")), nil)
			_, err := r.Next()
			var long *ndjson.TooLong
			if !errors.As(err, &long) || long.Limit != message.MaxLine {
				t.Fatalf("got %v", err)
			}
			if long.Error() != "a line is longer than 16384 bytes" {
				t.Errorf("it says %q", long)
			}
			if m := long.Salvage.Request(message.Current); m.Type != "Memory.Get" || m.Metadata.ID != "q1" {
				t.Errorf("salvaged %+v", m)
			}
		})
	}
}

func TestLineCountsAlsoWhatIsNotHandedOut(t *testing.T) {
	r := ndjson.NewReader(strings.NewReader("a\n\n\nb\n"+strings.Repeat("x", 20000)+"\nc"), nil)
	for _, want := range []int{1, 4, 5, 6} {
		if _, err := r.Next(); err == io.EOF {
			t.Fatal(err)
		}
		if got := r.Line(); got != want {
			t.Errorf("line %d, want %d", got, want)
		}
	}
}

func TestErrorOfTheInputComesAfterItsLinesAndStays(t *testing.T) {
	broken := errors.New("broken")
	for _, test := range []struct {
		name  string
		input string
		want  []string
	}{
		{"between lines", "a\nb\n", []string{"a", "b"}},
		{"inside of a line", "a\nb", []string{"a"}}, // what is left may be half a message
		{"inside of a line that is too long", "a\n" + strings.Repeat("x", 20000), []string{"a", tooLong}},
		{"at once", "", nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := ndjson.NewReader(io.MultiReader(strings.NewReader(test.input), iotest.ErrReader(broken)), nil)
			var got []string
			for {
				line, err := r.Next()
				var long *ndjson.TooLong
				if errors.As(err, &long) {
					got = append(got, tooLong)
					continue
				}
				if err != nil {
					if err != broken || line != nil {
						t.Fatalf("got %q, %v", line, err)
					}
					break
				}
				got = append(got, string(line))
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("got %q, want %q", got, test.want)
			}
			if _, err := r.Next(); err != broken {
				t.Errorf("the next call returns %v", err)
			}
		})
	}
}

func TestEndOfTheInputStays(t *testing.T) {
	r := ndjson.NewReader(strings.NewReader("a"), nil)
	if line, err := r.Next(); string(line) != "a" || err != nil {
		t.Fatalf("got %q, %v", line, err)
	}
	for range 3 {
		if line, err := r.Next(); err != io.EOF || line != nil {
			t.Errorf("got %q, %v", line, err)
		}
	}
}

// idle never returns anything, nor an error.
type idle struct{}

func (idle) Read([]byte) (int, error) { return 0, nil }

func TestInputThatNeverGivesAnythingIsAnError(t *testing.T) {
	r := ndjson.NewReader(io.MultiReader(strings.NewReader("a\n"), idle{}), nil)
	if line, err := r.Next(); string(line) != "a" || err != nil {
		t.Fatalf("got %q, %v", line, err)
	}
	if _, err := r.Next(); err != io.ErrNoProgress {
		t.Errorf("got %v, want %v", err, io.ErrNoProgress)
	}
}

// Who answers in batches writes out before it waits, so it must be told.
func TestBeforeReadIsCalledBeforeEachReadAndAtNoOtherTime(t *testing.T) {
	told, reads := 0, 0
	src := readerFunc(func(b []byte) (int, error) {
		if reads++; told != reads {
			t.Errorf("read %d came after %d calls", reads, told)
		}
		if reads > 3 {
			return 0, io.EOF
		}
		return copy(b, "a\nb\nc\n"), nil
	})
	r := ndjson.NewReader(src, &ndjson.ReaderOptions{BeforeRead: func() { told++ }})
	for i := range 9 {
		if _, err := r.Next(); err != nil {
			t.Fatal(err)
		}
		if want := i/3 + 1; told != want {
			t.Errorf("after line %d it was called %d times, want %d", i, told, want)
		}
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(b []byte) (int, error) { return f(b) }

func TestLinesAreHandedOutBeforeMoreIsRead(t *testing.T) {
	pr, pw := io.Pipe()
	defer func() { _ = pr.Close() }()
	r := ndjson.NewReader(pr, nil)
	written := make(chan error, 1)
	go func() {
		_, err := pw.Write([]byte("a\nb\nhalf"))
		written <- err
	}()
	for _, want := range []string{"a", "b"} { // would block if the reader wanted more
		if line, err := r.Next(); err != nil || !bytes.Equal(line, []byte(want)) {
			t.Fatalf("got %q, %v", line, err)
		}
	}
	if err := <-written; err != nil {
		t.Fatal(err)
	}
}
