package sealed

import (
	"bytes"
	"encoding/hex"
	"strings"
	"testing"
)

func newTestCipher(t testing.TB, fill byte) *Cipher {
	t.Helper()
	c, err := NewCipher(bytes.Repeat([]byte{fill}, KeySize))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

var testKid = Kid{Source: Agent, Digest: [32]byte{1, 2, 3}}

func TestWhatIsSealedOpens(t *testing.T) {
	c := newTestCipher(t, 7)
	for _, plaintext := range []string{"", "x", "grüße\x00\xff", strings.Repeat("long ", 5000)} {
		for _, aad := range []string{"", "vault/\"a\"\n"} {
			text := c.Seal(testKid, []byte(plaintext), aad, nil)
			box, err := Parse(text)
			if err != nil || box.Kid != testKid.String() || box.AAD != aad {
				t.Fatalf("%q: %+v, %v", text, box, err)
			}
			if got, err := c.Open(&box); err != nil || string(got) != plaintext {
				t.Errorf("%q opens as %q, %v", text, got, err)
			}
		}
	}
}

func TestWhatIsChangedDoesNotOpen(t *testing.T) {
	c := newTestCipher(t, 7)
	open := func(change func(*Box)) error {
		box, err := Parse(c.Seal(testKid, []byte("hunter2"), "for the door", nil))
		if err != nil {
			t.Fatal(err)
		}
		change(&box)
		_, err = c.Open(&box)
		return err
	}
	if err := open(func(*Box) {}); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*Box){
		"nonce":   func(b *Box) { b.Nonce[11] ^= 1 },
		"ct":      func(b *Box) { b.Ciphertext[0] ^= 1 },
		"tag":     func(b *Box) { b.Ciphertext[len(b.Ciphertext)-1] ^= 0x80 },
		"shorter": func(b *Box) { b.Ciphertext = b.Ciphertext[1:] },
		"aad":     func(b *Box) { b.AAD = "for the window" },
		"no aad":  func(b *Box) { b.AAD = "" },
	} {
		if err := open(change); err != ErrAltered {
			t.Errorf("%s: %v", name, err)
		}
	}
	box, _ := Parse(c.Seal(testKid, nil, "", nil))
	if _, err := newTestCipher(t, 8).Open(&box); err != ErrAltered {
		t.Errorf("another key: %v", err)
	}
}

func TestNoncesAreNew(t *testing.T) {
	c := newTestCipher(t, 7)
	seen := make(map[string]bool)
	for range 1000 {
		box, err := Parse(c.Seal(testKid, []byte("same"), "", nil))
		if err != nil || seen[string(box.Nonce)] {
			t.Fatalf("the nonce %x, %v", box.Nonce, err)
		}
		seen[string(box.Nonce)] = true
	}
}

// TestDerive has a value that another implementation of HKDF gave:
// hkdfSync("sha256", Buffer.alloc(64, 5), "PromptwareOS", "pwenc:v1", 32) of Node.js.
func TestDerive(t *testing.T) {
	key, err := Derive(bytes.Repeat([]byte{5}, 64))
	if got := hex.EncodeToString(key); err != nil || got != "b0d5ff27bb872e2ee6f8e0bff785995e094166df968c82c7fdcdfe35300ce4da" {
		t.Errorf("got %s, %v", got, err)
	}
	if _, err := NewCipher(key[1:]); err == nil {
		t.Error("a short key was taken")
	}
}

func BenchmarkSealAndOpen(b *testing.B) {
	c := newTestCipher(b, 7)
	plaintext := []byte("a token of some forty characters, as usual")
	b.ReportAllocs()
	for b.Loop() {
		box, err := Parse(c.Seal(testKid, plaintext, "", nil))
		if err != nil {
			b.Fatal(err)
		}
		if _, err := c.Open(&box); err != nil {
			b.Fatal(err)
		}
	}
}
