package store

import (
	"errors"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestError(t *testing.T) {
	bare, full := Errorf(409, nil, "Key %s", "k"), Errorf(507, errDisk, "The disk is full")
	if got := bare.Error(); got != "Key k" {
		t.Errorf("%q", got)
	}
	if got := full.Error(); got != "The disk is full: the disk" {
		t.Errorf("%q", got)
	}
	if code, text := full.Public(); code != 507 || text != "The disk is full" {
		t.Errorf("a caller sees %d %q, and must not see the cause", code, text)
	}
	if !errors.Is(full, errDisk) || errors.Is(bare, errDisk) {
		t.Error("the cause is not found")
	}
}

// Two keyspaces with one name or a key of the engine's would be a mistake that isn't seen.
func TestSpaces(t *testing.T) {
	names := make(map[string]bool)
	for space, name := range Spaces {
		if space == 0 || space == 0xFF || name == "" || names[name] {
			t.Errorf("the keyspace %q is called %q", space, name)
		}
		names[name] = true
	}
}
