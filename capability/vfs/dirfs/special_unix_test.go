//go:build unix

package dirfs

import (
	"net"
	"path/filepath"
	"syscall"
	"testing"
)

// special makes files that aren't regular: a read of the pipe would wait for ever.
func special(t *testing.T, dir string) {
	t.Helper()
	if err := syscall.Mkfifo(filepath.Join(dir, "fifo"), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir) // a socket's path must be short
	l, err := net.Listen("unix", "socket")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
}
