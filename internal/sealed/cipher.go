package sealed

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
)

// KeySize is the size of a key in bytes.
const KeySize = 32

// Challenge is the exact text whose signature is what a key is derived from.
const Challenge = "PromptWareOS::pwenc::v1"

// What goes into the derivation of a key. That they are spelled differently from the
// challenge is how the format has it.
const (
	salt = "PromptwareOS"
	info = "pwenc:v1"
)

// Derive makes the key that a secret stands for, usually the bare signature over
// [Challenge]. The caller erases both.
func Derive(secret []byte) ([]byte, error) {
	return hkdf.Key(sha256.New, secret, []byte(salt), info, KeySize)
}

// ErrAltered says that a sealed string does not open: it is not as it was sealed, or was
// sealed with another key than this one.
var ErrAltered = errors.New("it was changed, or sealed with another key")

// A Cipher seals and opens with one key. It is safe for concurrent use.
type Cipher struct{ aead cipher.AEAD }

// NewCipher returns the cipher of a key, which it does not keep.
func NewCipher(key []byte) (*Cipher, error) {
	if len(key) != KeySize {
		return nil, fmt.Errorf("a key has %d bytes, not %d", KeySize, len(key))
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		return nil, err
	}
	return &Cipher{aead}, nil
}

// Seal returns the plaintext as a sealed string, with a nonce that is new. The aad is not
// hidden, but can't be changed; "" means none.
func (c *Cipher) Seal(kid Kid, plaintext []byte, aad string) string {
	nonce := make([]byte, NonceSize)
	_, _ = rand.Read(nonce) // it never fails: it would end the process
	b := Box{
		Kid: kid.String(), Nonce: nonce, AAD: aad,
		Ciphertext: c.aead.Seal(nil, nonce, plaintext, []byte(aad)),
	}
	return b.String()
}

// Open returns the plaintext of a box that [Parse] has read. The error is [ErrAltered].
func (c *Cipher) Open(b *Box) ([]byte, error) {
	plaintext, err := c.aead.Open(nil, b.Nonce, b.Ciphertext, []byte(b.AAD))
	if err != nil {
		return nil, ErrAltered
	}
	return plaintext, nil
}
