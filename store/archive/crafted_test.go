package archive

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"runtime"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"kernos/store"
)

// crafted packs items as no Writer would, with an end whose checksum fits.
func crafted(t testing.TB, header string, entries uint64, items ...io.Reader) []byte {
	t.Helper()
	var file bytes.Buffer
	zip, err := zstd.NewWriter(&file, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1))
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.New()
	out := io.MultiWriter(zip, sum)
	begin := append(binary.AppendUvarint([]byte(magic), uint64(len(header))), header...)
	end := append(binary.AppendUvarint([]byte("z"), entries), 0)
	for _, part := range append(append([]io.Reader{bytes.NewReader(begin)}, items...), bytes.NewReader(end)) {
		if _, err := io.Copy(out, part); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := zip.Write(sum.Sum(nil)); err != nil {
		t.Fatal(err)
	}
	if err := zip.Close(); err != nil {
		t.Fatal(err)
	}
	return file.Bytes()
}

const goodHeader = `{"version":1,"origin":"https://a.local/","kernos":"0.4.0"}`

// entryHead is an entry without its value.
func entryHead(revision, size uint64) io.Reader {
	b := binary.AppendUvarint([]byte("e"), revision)
	b = binary.AppendUvarint(append(b, 1), size)
	return bytes.NewReader(append(b, 'm'))
}

type zeros struct{}

func (zeros) Read(b []byte) (int, error) {
	clear(b)
	return len(b), nil
}

// A craftedFile is a small file that promises much.
type craftedFile struct {
	name  string
	file  func(t testing.TB) []byte
	words string // of the error; "" if it is a whole backup
}

var craftedFiles = []craftedFile{
	{"an entry that is not there", func(t testing.TB) []byte {
		return crafted(t, goodHeader, 1, entryHead(1, maxValue))
	}, "its end is missing"},
	{"an entry of 1 TiB that is not there", func(t testing.TB) []byte {
		return crafted(t, goodHeader, 1, entryHead(1, 1<<40))
	}, "a number in it is too large"},
	{"a blob of 8 EiB that is not there", func(t testing.TB) []byte {
		return crafted(t, goodHeader, 0, strings.NewReader("b"+strings.Repeat("s", 32)), bytes.NewReader(binary.AppendUvarint(nil, math.MaxInt64)))
	}, "a number in it is too large"},
	{"a header that is not there", func(t testing.TB) []byte {
		var file bytes.Buffer
		zip, err := zstd.NewWriter(&file, zstd.WithEncoderConcurrency(1))
		if err != nil {
			t.Fatal(err)
		}
		_, _ = zip.Write(binary.AppendUvarint([]byte(magic), 1<<62))
		_ = zip.Close()
		return file.Bytes()
	}, "a number in it is too large"},
	// A frame with a window of 1 GiB, and one block that repeats a byte.
	{"a window of 1 GiB", func(testing.TB) []byte {
		return []byte(zstdMagic + "\x00\xA0" + "\x03\x00\x10" + "K")
	}, "can't be unpacked"},
	{"the highest revision", func(t testing.TB) []byte {
		return crafted(t, goodHeader, 1, entryHead(uint64(store.MaxRevision), 0))
	}, ""},
	{"a higher one", func(t testing.TB) []byte {
		return crafted(t, goodHeader, 1, entryHead(uint64(store.MaxRevision)+1, 0))
	}, "a number in it is too large"},
	{"the highest number", func(t testing.TB) []byte {
		return crafted(t, goodHeader, 1, entryHead(math.MaxInt64, 0))
	}, "a number in it is too large"},
	{"an origin that colours a terminal", func(t testing.TB) []byte {
		return crafted(t, `{"version":1,"origin":"\u001b[31mhttps://a.local/","kernos":"0.4.0"}`, 0)
	}, "its origin ␛[31mhttps://a.local/"},
	{"an origin that turns a line around", func(t testing.TB) []byte {
		return crafted(t, `{"version":1,"origin":"https://a.local/\u202e","kernos":"0.4.0"}`, 0)
	}, "its origin https://a.local/⟨U+202e⟩"},
	{"a name instead of an origin", func(t testing.TB) []byte {
		return crafted(t, `{"version":1,"origin":"../..","kernos":"0.4.0"}`, 0)
	}, "its origin ../.."},
	{"a version that colours a terminal", func(t testing.TB) []byte {
		return crafted(t, `{"version":9,"origin":"https://a.local/","kernos":"\u001b]0;x\u0007\n"}`, 0)
	}, "use the kernos ␛]0;x␇␊ that made it"},
}

func TestCraftedFilesAreRefusedAndCostLittle(t *testing.T) {
	for _, c := range craftedFiles {
		t.Run(c.name, func(t *testing.T) {
			file := c.file(t)
			_, err := cheaply(t, 4<<20, func() ([]string, error) { return readAll(file, false) })
			switch {
			case c.words == "" && err != nil, c.words != "" && err == nil:
				t.Fatal(err)
			case c.words != "" && !strings.Contains(err.Error(), c.words):
				t.Errorf("got %q, want %q in it", err, c.words)
			case err != nil && strings.ContainsAny(err.Error(), "\x1b\x07\n\u202e"):
				t.Errorf("a terminal obeys %q", err)
			}
		})
	}
}

// cheaply runs something that may allocate some bytes.
func cheaply[T any](t *testing.T, most uint64, run func() (T, error)) (T, error) {
	t.Helper()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	out, err := run()
	runtime.ReadMemStats(&after)
	if took := after.TotalAlloc - before.TotalAlloc; took > most {
		t.Errorf("it took %d bytes", took)
	}
	return out, err
}

// A file of 34 KB with an entry of 1 GiB took 8.9 GB.
func TestAnEntryOfAGigabyte(t *testing.T) {
	file := crafted(t, goodHeader, 1, entryHead(1, 1<<30), io.LimitReader(zeros{}, 1<<30))
	if len(file) > 256<<10 {
		t.Fatalf("the file has %d bytes", len(file))
	}
	_, err := cheaply(t, 8<<20, func() ([]string, error) { return readAll(file, false) })
	if !errors.Is(err, errDamaged) {
		t.Error(err)
	}
}

// The largest entry takes no more than a few times its size.
func TestTheLargestEntry(t *testing.T) {
	file := crafted(t, goodHeader, 1, entryHead(1, maxValue), io.LimitReader(zeros{}, maxValue))
	lines, err := cheaply(t, 3*maxValue, func() ([]string, error) { return readAll(file, false) })
	if err != nil || len(lines) != 1 {
		t.Error(lines, err)
	}
}

func TestAReaderHasALimit(t *testing.T) {
	file := sample(t, 3, strings.Repeat("\x00", 16<<20), "hello")
	r, err := NewReader(bytes.NewReader(file))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	r.Limit(1 << 20)
	for err == nil {
		_, err = r.Next()
	}
	if _, ok := errors.AsType[*TooLarge](err); !ok {
		t.Error(err)
	}
}
