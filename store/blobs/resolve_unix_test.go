//go:build unix

package blobs_test

import (
	"path/filepath"
	"syscall"
	"testing"

	"kernos/message"
	"kernos/store/blobs"
)

// To open a pipe waits for its other end. The test would hang.
func TestResolveDoesNotWaitForAPipe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := new(blobs.Resolver).Resolve(t.Context(), message.FileBlob(path)); code(err) != 422 {
		t.Errorf("got %v", err)
	}
}
