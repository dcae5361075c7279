package store_test

import (
	"errors"
	"testing"

	"go.uber.org/goleak"

	"kernos/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestError(t *testing.T) {
	bare, full := store.Errorf(409, nil, "Key %s", "k"), store.Errorf(507, errDisk, "The disk is full")
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

// Two keyspaces with one byte don't compile here: a map has no key twice.
func TestSpaces(t *testing.T) {
	for space, of := range map[byte]string{
		store.SpaceMemory: "memory", store.SpaceIdempotency: "idempotency", store.SpaceJournal: "journal", store.SpaceBlobs: "blobs",
		store.SpaceHolders: "holders", store.SpaceTokens: "tokens", store.SpaceWork: "work", store.SpaceJobs: "jobs", store.SpaceClaims: "claims",
		store.SpaceScripts: "scripts", store.SpaceSessions: "sessions", store.SpaceMcp: "mcp", store.SpaceVectors: "vectors", store.SpaceNotify: "notifications",
	} {
		if space == 0 || space == 0xFF {
			t.Errorf("the keyspace of %s has a byte of the engine's", of)
		}
	}
}
