package testkit

import (
	"crypto/ed25519"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"
)

// Key returns a new key that signs, and its public key.
func Key(t testing.TB) (ed25519.PrivateKey, ssh.PublicKey) {
	t.Helper()
	_, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	public, err := ssh.NewPublicKey(private.Public())
	if err != nil {
		t.Fatal(err)
	}
	return private, public
}

// Keyring returns an ssh-agent that has some private keys.
func Keyring(t testing.TB, keys ...any) agent.Agent {
	t.Helper()
	ring := agent.NewKeyring()
	for _, key := range keys {
		if err := ring.Add(agent.AddedKey{PrivateKey: key}); err != nil {
			t.Fatal(err)
		}
	}
	return ring
}

// ServeAgent lets an ssh-agent listen on a socket until the test ends, and returns what
// SSH_AUTH_SOCK would be. Its clients must have left by then.
func ServeAgent(t testing.TB, a agent.Agent) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "agent") // a short name, since paths of sockets are limited
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", filepath.Join(dir, "s"))
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			serving.Go(func() {
				_ = agent.ServeAgent(a, conn) // returns when the client leaves
				_ = conn.Close()
			})
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		serving.Wait()
		_ = os.RemoveAll(dir)
	})
	return l.Addr().String()
}
