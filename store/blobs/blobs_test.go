package blobs_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"go.uber.org/goleak"

	"kernos/message"
	"kernos/store/blobs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newDir(t *testing.T, path string) *blobs.Dir {
	t.Helper()
	d, err := blobs.New(path)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// place is where a blob belongs.
func place(dir string, data []byte) string {
	sum := sha256.Sum256(data)
	name := hex.EncodeToString(sum[:])
	return filepath.Join(dir, name[:2], name)
}

// files lists the regular files below a directory.
func files(t *testing.T, dir string) (paths []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.Type().IsRegular() {
			paths = append(paths, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return paths
}

func TestBlobIsKeptUnderTheHashOfItsContent(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "deep", "blobs")
	d := newDir(t, dir)
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("the directory was made before there was a blob: %v", err)
	}
	for _, data := range [][]byte{[]byte("hello"), {}, {0, 0xFF}, bytes.Repeat([]byte("x"), 1<<20)} {
		blob, err := d.Put(data)
		if err != nil {
			t.Fatal(err)
		}
		path := blob.Path
		if want := place(dir, data); path != want {
			t.Errorf("kept at %s, want %s", path, want)
		}
		if blob.Hash != blobs.Sum(data) || blob.Size != int64(len(data)) || d.Path(blob.Hash) != path {
			t.Errorf("%d bytes are kept as %v", len(data), blob)
		}
		if p := blob.Pointer(); p != message.FileBlob(path) || p != d.Pointer(blob.Hash) {
			t.Errorf("%v is pointed to by %v", blob, p)
		}
		if got, err := d.Read(blob.Hash); err != nil || !bytes.Equal(got, data) {
			t.Errorf("%d bytes came back as %d, %v", len(data), len(got), err)
		}
	}
	if got := len(files(t, dir)); got != 4 {
		t.Errorf("there are %d files, want 4", got)
	}
}

func TestSameDataIsKeptOnceAndMadeNew(t *testing.T) {
	dir := t.TempDir()
	d := newDir(t, dir)
	first, err := d.Put([]byte("hello"))
	if err != nil {
		t.Fatal(err)
	}
	begun := time.Now()
	long := begun.Add(-time.Hour)
	if err := os.Chtimes(first.Path, long, long); err != nil {
		t.Fatal(err)
	}
	before, err := os.Stat(first.Path)
	if err != nil {
		t.Fatal(err)
	}
	for _, put := range []func() (blobs.Blob, error){
		func() (blobs.Blob, error) { return newDir(t, dir).Put([]byte("hello")) },
		func() (blobs.Blob, error) { return d.PutReader(strings.NewReader("hello"), 5) },
	} {
		second, err := put()
		if err != nil || second != first {
			t.Fatalf("got %v, %v; want %v", second, err, first)
		}
		after, err := os.Stat(second.Path)
		if err != nil || !os.SameFile(before, after) {
			t.Error("the file was written again")
		}
		if after.ModTime().Before(begun.Add(-time.Minute)) {
			t.Error("the file is as old as before")
		}
		if got := files(t, dir); len(got) != 1 {
			t.Errorf("there are %q", got)
		}
		if err := os.Chtimes(first.Path, long, long); err != nil {
			t.Fatal(err)
		}
	}
}

func TestOnlyTheOwnerMayLook(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "blobs")
	blob, err := newDir(t, dir).Put([]byte("secret"))
	if err != nil {
		t.Fatal(err)
	}
	path := blob.Path
	for place, want := range map[string]fs.FileMode{dir: 0o700 | fs.ModeDir, filepath.Dir(path): 0o700 | fs.ModeDir, path: 0o600} {
		info, err := os.Stat(place)
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode() != want {
			t.Errorf("%s has mode %v, want %v", place, info.Mode(), want)
		}
	}
}

func TestPathIsAbsoluteWhereverTheProcessGoes(t *testing.T) {
	t.Chdir(t.TempDir())
	d := newDir(t, "blobs")
	wd, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	blob, err := d.Put([]byte("hello"))
	if err != nil || blob.Path != place(filepath.Join(wd, "blobs"), []byte("hello")) {
		t.Errorf("got %s, %v", blob.Path, err)
	}
}

// A crash of an older version, or a full disk, may have left a file that is cut off.
func TestFileOfTheWrongLengthIsReplaced(t *testing.T) {
	dir := t.TempDir()
	data := []byte("hello, world")
	path := place(dir, data)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, data[:5], 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := newDir(t, dir).Put(data); err != nil || got.Path != path {
		t.Fatalf("got %v, %v", got, err)
	}
	if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, data) {
		t.Errorf("the file holds %q, %v", got, err)
	}
}

// The tests may run as root, whom permissions do not stop; names that are taken do.
func TestFailedPutIsAnErrorAndLeavesNothingBehind(t *testing.T) {
	data := []byte("hello")
	for _, test := range []struct {
		name  string
		block func(t *testing.T, dir string) // makes Put into dir fail
	}{
		{"a file in place of the directory", func(t *testing.T, dir string) { writeFile(t, dir) }},
		{"a file in place of its parent", func(t *testing.T, dir string) { writeFile(t, filepath.Dir(dir)) }},
		{"a file in place of the inner directory", func(t *testing.T, dir string) { writeFile(t, filepath.Dir(place(dir, data))) }},
		{"a directory in place of the blob", func(t *testing.T, dir string) {
			if err := os.MkdirAll(filepath.Join(place(dir, data), "x"), 0o700); err != nil {
				t.Fatal(err)
			}
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			root := t.TempDir()
			dir := filepath.Join(root, "parent", "blobs")
			test.block(t, dir)
			before := files(t, root)
			if blob, err := newDir(t, dir).Put(data); err == nil || blob != (blobs.Blob{}) {
				t.Errorf("got %v, %v; want an error", blob, err)
			}
			if blob, err := newDir(t, dir).PutReader(bytes.NewReader(data), 100); err == nil || blob != (blobs.Blob{}) {
				t.Errorf("got %v, %v from a reader; want an error", blob, err)
			}
			if after := files(t, root); fmt.Sprint(after) != fmt.Sprint(before) {
				t.Errorf("before there was %q, after %q", before, after)
			}
		})
	}
}

func writeFile(t *testing.T, path string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("in the way"), 0o600); err != nil {
		t.Fatal(err)
	}
}

// A directory has a size as well; it must not pass for the blob.
func TestDirectoryOfTheRightSizeIsNotTakenForTheBlob(t *testing.T) {
	dir := t.TempDir()
	info, err := os.Stat(dir)
	if err != nil {
		t.Fatal(err)
	}
	data := bytes.Repeat([]byte("x"), int(info.Size()))
	if err := os.MkdirAll(place(dir, data), 0o700); err != nil {
		t.Fatal(err)
	}
	if blob, err := newDir(t, dir).Put(data); err == nil {
		path := blob.Path
		if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() {
			t.Errorf("%s is said to hold the data and is %v", path, info.Mode())
		}
	}
}

func TestConcurrentPutsOfTheSameDataAgree(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "blobs")
	data := bytes.Repeat([]byte("shared"), 10_000)
	start := make(chan struct{})
	var wg sync.WaitGroup
	for range 16 {
		d := newDir(t, dir) // as other processes would
		wg.Go(func() {
			<-start
			blob, err := d.Put(data)
			path := blob.Path
			if err != nil || path != place(dir, data) {
				t.Errorf("got %s, %v", path, err)
				return
			}
			// Complete for the writer that comes back first, too.
			if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, data) {
				t.Errorf("%d bytes came back, %v", len(got), err)
			}
		})
	}
	close(start)
	wg.Wait()
	if got := files(t, dir); len(got) != 1 {
		t.Errorf("there are %q, want one file", got)
	}
}

func TestConcurrentPutsOfDifferentDataAreAllKept(t *testing.T) {
	dir := t.TempDir()
	d := newDir(t, dir)
	var wg sync.WaitGroup
	for i := range 50 {
		wg.Go(func() {
			data := fmt.Appendf(nil, "blob %d", i)
			blob, err := d.Put(data)
			if err != nil {
				t.Error(err)
				return
			}
			if got, err := os.ReadFile(blob.Path); err != nil || !bytes.Equal(got, data) {
				t.Errorf("%q came back as %q, %v", data, got, err)
			}
		})
	}
	wg.Wait()
	if got := len(files(t, dir)); got != 50 {
		t.Errorf("there are %d files, want 50", got)
	}
}

func TestReaderIsKeptAsItsDataWouldBe(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "blobs")
	d := newDir(t, dir)
	for _, size := range []int{0, 1, 1000, 3 << 20} {
		data := bytes.Repeat([]byte("x"), size)
		blob, err := d.PutReader(bytes.NewReader(data), int64(size))
		if err != nil || blob != (blobs.Blob{Hash: blobs.Sum(data), Size: int64(size), Path: place(dir, data)}) {
			t.Fatalf("%d bytes are kept as %v, %v", size, blob, err)
		}
		if got, err := d.Read(blob.Hash); err != nil || !bytes.Equal(got, data) {
			t.Errorf("%d bytes came back as %d, %v", size, len(got), err)
		}
	}
	if got := len(files(t, dir)); got != 4 {
		t.Errorf("there are %d files, want 4", got)
	}
}

func TestReaderThatGivesTooMuchOrFailsLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	d := newDir(t, dir)
	_, err := d.PutReader(strings.NewReader("hello!"), 5)
	if e, ok := errors.AsType[*message.Error](err); !ok || e.Code != 413 {
		t.Errorf("six bytes where five are allowed: %v", err)
	}
	broken := errors.New("broken")
	if _, err := d.PutReader(io.MultiReader(strings.NewReader("hel"), iotest.ErrReader(broken)), 100); !errors.Is(err, broken) {
		t.Errorf("got %v, want what the reader said", err)
	}
	if got := files(t, dir); len(got) != 0 {
		t.Errorf("left behind: %q", got)
	}
}

func TestDamageIsNoticed(t *testing.T) {
	d := newDir(t, t.TempDir())
	blob, err := d.Put([]byte("hello"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(blob.Path, []byte("hullo"), 0o600); err != nil {
		t.Fatal(err)
	}
	if data, err := d.Read(blob.Hash); !errors.Is(err, blobs.ErrDamaged) {
		t.Errorf("got %q, %v", data, err)
	}
	if _, err := d.Read(blobs.Sum(nil)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a blob that is not there: %v", err)
	}
	if _, err := d.Open(blobs.Sum(nil)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a blob that is not there: %v", err)
	}
}

func TestHashIsReadAsItIsWritten(t *testing.T) {
	h := blobs.Sum([]byte("hello"))
	if got, err := blobs.ParseHash(h.String()); err != nil || got != h {
		t.Errorf("%v came back as %v, %v", h, got, err)
	}
	for _, s := range []string{"", "ab", strings.ToUpper(h.String()), h.String() + "0", h.String()[1:] + "g", h.String()[1:] + "/"} {
		if got, err := blobs.ParseHash(s); err == nil {
			t.Errorf("%q is read as %v", s, got)
		}
	}
}
