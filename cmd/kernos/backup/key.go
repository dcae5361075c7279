package backup

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/crypto/argon2"

	"kernos/daemon"
	"kernos/store"
	"kernos/store/archive"
)

// keyVersion is the form of a key in a backup: AES-256-GCM under a key that Argon2id makes of the
// passphrase, for the origin of the backup.
const keyVersion = 1

const (
	saltSize = 16
	keyTime  = 3
	keyBytes = 64 << 10 // KiB of memory that one guess of the passphrase takes
	keyLanes = 4

	maxKeyFile = 4 << 10
)

// A Passphrase asks for a passphrase.
type Passphrase func() ([]byte, error)

// sealKey returns the key file of a home as a backup has it.
func sealKey(home daemon.Home, ask Passphrase) (*archive.Key, error) {
	text, err := os.ReadFile(home.Key())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("there is no key file %s: nothing was sealed with one; leave out --with-key", home.Key())
	}
	if err != nil {
		return nil, err
	}
	defer clear(text)
	passphrase, err := ask()
	if err != nil {
		return nil, err
	}
	defer clear(passphrase)
	k := &archive.Key{Version: keyVersion, Salt: make([]byte, saltSize)}
	_, _ = rand.Read(k.Salt) // rand.Read never fails
	c, err := keyCipher(passphrase, k.Salt)
	if err != nil {
		return nil, err
	}
	k.Text = c.Seal(nil, make([]byte, c.NonceSize()), text, []byte(home.Origin)) // the salt makes each key new
	return k, nil
}

// openKey returns the key file that a backup of an origin has.
func openKey(k *archive.Key, origin store.Origin, ask Passphrase) ([]byte, error) {
	if k.Version != keyVersion || len(k.Salt) != saltSize || len(k.Text) > maxKeyFile {
		return nil, errors.New("the sealing key in the backup has a form that this version doesn't know; use a newer one, or leave the key out with --without-key")
	}
	passphrase, err := ask()
	if err != nil {
		return nil, err
	}
	defer clear(passphrase)
	c, err := keyCipher(passphrase, k.Salt)
	if err != nil {
		return nil, err
	}
	text, err := c.Open(nil, make([]byte, c.NonceSize()), k.Text, []byte(origin))
	if err != nil {
		return nil, errors.New("the passphrase doesn't open the sealing key in the backup; nothing was changed: try again, or leave the key out with --without-key")
	}
	return text, nil
}

func keyCipher(passphrase, salt []byte) (cipher.AEAD, error) {
	secret := argon2.IDKey(passphrase, salt, keyTime, keyBytes, keyLanes, 32)
	defer clear(secret)
	block, err := aes.NewCipher(secret)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(block)
}
