package daemon_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"kernos/daemon"
	"kernos/internal/testkit"

	"golang.org/x/crypto/ssh"
)

func TestKeys(t *testing.T) {
	_, key := testkit.Key(t)
	curve, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	other, err := ssh.NewPublicKey(&curve.PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	good, bad := string(ssh.MarshalAuthorizedKey(key)), string(ssh.MarshalAuthorizedKey(other))
	name := filepath.Join(t.TempDir(), "keys")
	for _, c := range []struct {
		text string
		keys int
		want string
	}{
		{"# mine\n\n" + good + good, 2, ""},
		{"", 0, "has no key, so no client could connect"},
		{good + "nonsense\n", 0, ":2: expected a public key such as ssh-ed25519"},
		{good + bad, 0, ":2: a key of type ecdsa-sha2-nistp256 can't be used"},
		{`expiry-time="20200101" ` + good, 0, ":1: a key with options (expiry-time="},
	} {
		if err := os.WriteFile(name, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		keys, err := daemon.ReadKeys(name)
		if len(keys) != c.keys || (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %d keys, %v", c.text, len(keys), err)
		}
	}
	if _, err := daemon.ReadKeys(name + "nosuch"); err == nil || !strings.Contains(err.Error(), "the keys can't be read") {
		t.Errorf("no file: %v", err)
	}
}
