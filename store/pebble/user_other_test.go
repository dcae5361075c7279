//go:build !linux

package pebble

import (
	"os"
	"testing"
)

// as runs f as a user who is not the owner of the directories. Only Linux has a user per thread, so
// root, whom no permission stops, can't do it elsewhere.
func as(t *testing.T, f func()) {
	t.Helper()
	if os.Getuid() == 0 {
		t.Fatal("run this test as another user than root")
	}
	f()
}
