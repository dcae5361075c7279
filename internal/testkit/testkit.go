// Package testkit has what the tests of several packages need: an ssh-agent, certificates,
// and patience. Tests import it, and nothing else may.
package testkit

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Patience is how long something may take that is expected to happen. It is there to end a
// test that hangs, not to measure anything.
const Patience = 5 * time.Minute

// Until waits for something to become true, and fails the test if it never does.
func Until(t testing.TB, what string, is func() bool) {
	t.Helper()
	if !Poll(is) {
		t.Fatalf("it is not so: %s", what)
	}
}

// Poll waits for something to become true, and reports whether it does.
func Poll(is func() bool) bool {
	for begun := time.Now(); !is(); time.Sleep(time.Millisecond) {
		if time.Since(begun) > Patience {
			return false
		}
	}
	return true
}

// Engine returns the folder in which test processes share the compiled script engine.
func Engine() string { return filepath.Join(os.TempDir(), "kernos-test-engine") }

// ShareEngine lets the home whose state is in a folder, which is made, share the compiled script engine.
// With the race detector, compiling takes seconds.
func ShareEngine(state string) error {
	for _, dir := range []string{Engine(), state} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return err
		}
	}
	err := os.Symlink(Engine(), filepath.Join(state, "engine"))
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	return err
}

// ShortDir returns an empty folder until the test ends. Its path is short, as those of sockets must be.
func ShortDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "kernos")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}
