package conformance

import (
	"bytes"
	"crypto/ed25519"
	"testing"

	"kernos/internal/testkit"
)

// serveAgent lets an ssh-agent with one key, always the same, listen at a socket until the
// test ends, and returns the path.
func serveAgent(t *testing.T) string {
	t.Helper()
	key := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{1}, ed25519.SeedSize))
	return testkit.ServeAgent(t, testkit.Keyring(t, key))
}
