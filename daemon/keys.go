package daemon

import (
	"bytes"
	"fmt"
	"os"

	"golang.org/x/crypto/ssh"
)

// ReadKeys reads the public keys that clients of a [Socket] may sign with from a file in the
// format of authorized_keys.
func ReadKeys(path string) ([]ssh.PublicKey, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("the keys can't be read: %w", err)
	}
	var keys []ssh.PublicKey
	n := 0
	for line := range bytes.Lines(text) {
		n++
		line = bytes.TrimSpace(line)
		if len(line) == 0 || line[0] == '#' {
			continue
		}
		key, _, options, _, err := ssh.ParseAuthorizedKey(line)
		switch {
		case err != nil:
			return nil, fmt.Errorf("%s:%d: expected a public key such as ssh-ed25519 AAAA… (the content of a .pub file): %w", path, n, err)
		case len(options) > 0:
			// Options restrict what a key is good for, which Kernos does not enforce.
			return nil, fmt.Errorf("%s:%d: a key with options (%s) is not accepted; remove the options, or the key", path, n, options[0])
		case key.Type() != ssh.KeyAlgoED25519 && key.Type() != ssh.KeyAlgoRSA:
			return nil, fmt.Errorf("%s:%d: a key of type %s can't be used; ssh-ed25519 and ssh-rsa can", path, n, key.Type())
		}
		keys = append(keys, key)
	}
	if len(keys) == 0 {
		return nil, fmt.Errorf("%s has no key, so no client could connect; put public keys into it, one per line", path)
	}
	return keys, nil
}
