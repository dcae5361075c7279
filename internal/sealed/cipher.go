package sealed

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"

	"kernos/internal/jsonscan"
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

	boundInfo = "pwenc:v2" // derives, from the same key, the one for strings with a destination
)

// Derive makes the key that a secret stands for, usually the bare signature over
// [Challenge]. The caller erases both.
func Derive(secret []byte) ([]byte, error) {
	return hkdf.Key(sha256.New, secret, []byte(salt), info, KeySize)
}

// ErrAltered means that a sealed string does not open: it is not as it was sealed, or was
// sealed with another key than this one.
var ErrAltered = errors.New("it was changed, or sealed with another key")

// A Cipher seals and opens with one key. It is safe for concurrent use.
//
// Strings with a destination have a key of their own, which is derived from it: else one
// could be written as a string of version 1 whose aad is the destination, and lose it.
type Cipher struct{ free, bound cipher.AEAD }

// NewCipher returns the cipher of a key, which it does not keep.
func NewCipher(key []byte) (*Cipher, error) {
	if len(key) != KeySize {
		return nil, fmt.Errorf("a key has %d bytes, not %d", KeySize, len(key))
	}
	derived, err := hkdf.Key(sha256.New, key, []byte(salt), boundInfo, KeySize)
	if err != nil {
		return nil, err
	}
	defer clear(derived)
	free, err := newAEAD(key)
	if err != nil {
		return nil, err
	}
	bound, err := newAEAD(derived)
	if err != nil {
		return nil, err
	}
	return &Cipher{free, bound}, nil
}

func newAEAD(key []byte) (cipher.AEAD, error) {
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(block)
}

// part returns what seals and opens a box, and what is authenticated with it.
func (c *Cipher) part(b *Box) (cipher.AEAD, []byte) {
	if len(b.For) == 0 {
		return c.free, []byte(b.AAD)
	}
	return c.bound, jsonscan.AppendQuoted(b.For.appendJSON(nil), b.AAD)
}

// Seal returns the plaintext as a sealed string, with a nonce that is new. The aad and the
// destination are not hidden, but can't be changed; "" and nil mean none. The destination must
// be one that [Destination.Check] accepts.
func (c *Cipher) Seal(kid Kid, plaintext []byte, aad string, to Destination) string {
	nonce := make([]byte, nonceSize)
	_, _ = rand.Read(nonce) // rand.Read never returns an error: it ends the process instead
	b := Box{Kid: kid.String(), Nonce: nonce, AAD: aad, For: to}
	aead, with := c.part(&b)
	b.Ciphertext = aead.Seal(nil, nonce, plaintext, with)
	return b.String()
}

// Open returns the plaintext of a box that [Parse] has read. The error is [ErrAltered].
func (c *Cipher) Open(b *Box) ([]byte, error) {
	aead, with := c.part(b)
	plaintext, err := aead.Open(nil, b.Nonce, b.Ciphertext, with)
	if err != nil {
		return nil, ErrAltered
	}
	return plaintext, nil
}
