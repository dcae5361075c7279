//go:build unix

package blobs_test

import (
	"bytes"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"
)

// A limit on the size of files is a full disk that also root gets. It holds for the
// whole process, so the test runs again as another one.
func TestWriteThatFailsHalfwayLeavesNoFile(t *testing.T) {
	const variable = "KERNOS_TEST_BLOBS"
	data := bytes.Repeat([]byte("x"), 100_000)
	if dir := os.Getenv(variable); dir != "" {
		signal.Ignore(syscall.SIGXFSZ)
		limit := syscall.Rlimit{Cur: 10_000, Max: 10_000}
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
			t.Fatal(err)
		}
		if blob, err := newDir(t, dir).Put(data); err == nil || blob.Path != "" {
			t.Errorf("got %v, %v; want an error", blob, err)
		}
		if blob, err := newDir(t, dir).PutReader(bytes.NewReader(data), 1<<20); err == nil || blob.Path != "" {
			t.Errorf("got %v, %v from a reader; want an error", blob, err)
		}
		return
	}
	dir := filepath.Join(t.TempDir(), "blobs")
	child := exec.Command(os.Args[0], "-test.run=^TestWriteThatFailsHalfwayLeavesNoFile$")
	child.Env = append(os.Environ(), variable+"="+dir)
	if out, err := child.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if got := files(t, dir); len(got) != 0 {
		t.Errorf("left behind: %q", got)
	}
	// The next try, with room, must not be misled by the first.
	blob, err := newDir(t, dir).Put(data)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(blob.Path); err != nil || !bytes.Equal(got, data) {
		t.Errorf("%d bytes came back, %v", len(got), err)
	}
}
