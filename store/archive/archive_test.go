package archive

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"kernos/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func sample(t testing.TB, entries int, blobs ...string) []byte {
	t.Helper()
	var file bytes.Buffer
	w, err := NewWriter(&file, Header{Origin: "https://a.local/", Created: time.Unix(1, 0).UTC(), Kernos: "0.1.0"})
	if err != nil {
		t.Fatal(err)
	}
	for i := range entries {
		if err := w.Entry(store.Entry{Key: fmt.Appendf(nil, "m%d", i), Value: bytes.Repeat([]byte{byte(i)}, i), Revision: store.Revision(i + 1)}); err != nil {
			t.Fatal(err)
		}
	}
	for _, b := range blobs {
		if err := w.Blob(sha256.Sum256([]byte(b)), int64(len(b)), strings.NewReader(b)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return file.Bytes()
}

// readAll reads a file to its end; skim leaves blobs unread.
func readAll(file []byte, skim bool) (lines []string, err error) {
	r, err := NewReader(bytes.NewReader(file))
	if err != nil {
		return nil, err
	}
	defer r.Close()
	for {
		item, err := r.Next()
		if err == io.EOF {
			return lines, nil
		}
		if err != nil {
			return lines, err
		}
		if item.Content == nil {
			lines = append(lines, fmt.Sprintf("%s=%d@%d", item.Entry.Key, len(item.Entry.Value), item.Entry.Revision))
			continue
		}
		if skim {
			lines = append(lines, "blob")
			continue
		}
		content, err := io.ReadAll(item.Content)
		if err != nil {
			return lines, err
		}
		lines = append(lines, "blob "+string(content))
	}
}

func TestWhatIsWrittenIsRead(t *testing.T) {
	file := sample(t, 3, "hello", "")
	got, err := readAll(file, false)
	if want := "m0=0@1 m1=1@2 m2=2@3 blob hello blob "; err != nil || strings.Join(got, " ") != want {
		t.Errorf("got %q, %v", got, err)
	}
	if got, err := readAll(file, true); err != nil || len(got) != 5 {
		t.Errorf("without reading the blobs: %q, %v", got, err)
	}
}

func TestADamagedFileIsNoticed(t *testing.T) {
	file := sample(t, 50, strings.Repeat("blob", 100))
	for cut := range len(file) {
		if _, err := readAll(file[:cut], false); !errors.Is(err, errDamaged) {
			t.Fatalf("cut at %d of %d: %v", cut, len(file), err)
		}
	}
	for i := range file {
		bad := bytes.Clone(file)
		bad[i] ^= 0x10
		if got, err := readAll(bad, true); err == nil && len(got) != 51 {
			t.Fatalf("a bit flipped at %d goes unnoticed", i)
		} else if err == nil {
			continue // the compressor's own slack: what is read is what was written
		}
	}
	if _, err := readAll(append(bytes.Clone(file), file...), false); err == nil {
		t.Error("a second backup behind the first goes unnoticed")
	}
	for _, junk := range []string{"", "hello", strings.Repeat("x", 1000)} {
		if _, err := readAll([]byte(junk), false); !errors.Is(err, errDamaged) {
			t.Errorf("%q: %v", junk, err)
		}
	}
}

func TestADamagedFileSaysWhatIsWrong(t *testing.T) {
	// One that is unpacked in one piece, and one that is not.
	for _, file := range [][]byte{sample(t, 20, "hello"), sample(t, 1500, string(incompressible(600_000)))} {
		for name, c := range map[string]struct {
			file  []byte
			words string
		}{
			"empty":                        {nil, "it is empty"},
			"another":                      {[]byte("PK\x03\x04 something else"), "does not begin as one"},
			"short":                        {[]byte("P"), "does not begin as one"},
			"cut in its first bytes":       {file[:3], "its end is missing"},
			"cut in the middle":            {file[:len(file)/2], "its end is missing"},
			"without its last byte":        {file[:len(file)-1], "its end is missing"},
			"a byte changed in the middle": {changed(file, len(file)/2), "changed"},
			"a byte changed near its end":  {changed(file, len(file)-40), "changed"},
		} {
			_, err := readAll(c.file, false)
			if !errors.Is(err, errDamaged) || !strings.Contains(err.Error(), c.words) {
				t.Errorf("%d bytes, %s: %v", len(file), name, err)
			}
		}
	}
}

func changed(file []byte, at int) []byte {
	bad := bytes.Clone(file)
	bad[at] ^= 0xFF
	return bad
}

func incompressible(n int) []byte {
	b := make([]byte, n)
	sum := sha256.Sum256(nil)
	for at := 0; at < n; at += copy(b[at:], sum[:]) {
		sum = sha256.Sum256(sum[:])
	}
	return b
}

func TestABlobOfAnotherSizeIsAnError(t *testing.T) {
	w, err := NewWriter(io.Discard, Header{})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Blob([32]byte{}, 10, strings.NewReader("short")); err == nil {
		t.Error("a blob that was cut goes unnoticed")
	}
	_ = w.Close()
}

func FuzzReader(f *testing.F) {
	f.Add(sample(f, 3, "hello"))
	f.Add(sample(f, 0))
	f.Add([]byte("x"))
	for _, c := range craftedFiles {
		f.Add(c.file(f))
	}
	f.Fuzz(func(t *testing.T, file []byte) {
		_, _ = readAll(file, len(file)%2 == 0)
	})
}
