package crypto

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"kernos/internal/sealed"
	"kernos/kernel"
	"kernos/kernel/kerneltest"
	"kernos/kernel/principal"
	"kernos/message"
)

// tokenContext acts for a token that may call everything.
func tokenContext(t *testing.T) context.Context {
	t.Helper()
	p := kerneltest.Principal(t, "01", "ci", principal.Grant{Allow: []string{"*"}})
	return kernel.ActFor(context.Background(), kernel.From(p, "ws"))
}

func fetching(host string) sealed.Use {
	return sealed.Use{Syscall: "Http.Fetch", Hosts: []string{host}}
}

// A bound string is opened for what it is for, whichever caller asks; one that is not bound is for the
// owner, and for tokens if the kernel was told so.
func TestWhoOpensASealedStringForWhat(t *testing.T) {
	file := filepath.Join(t.TempDir(), "key")
	w := newWorld(t, Options{KeyFile: file})
	lenient := newWorld(t, Options{KeyFile: file, OpenUnbound: true})
	free := w.seal("hunter2")
	bound := reply[string](w, "Seal", object{"plaintext": "hunter2", "for": []string{"api.example.com", "Http.*"}})
	owner, token := context.Background(), tokenContext(t)
	for _, c := range []struct {
		name    string
		ring    *Keyring
		ctx     context.Context
		text    string
		use     sealed.Use
		refusal string // "" if it opens
	}{
		{"the owner, anywhere", w.ring, owner, free, fetching("evil.org:443"), ""},
		{"a token, anywhere", w.ring, token, free, fetching("api.example.com:443"), `The token "ci" may not use a sealed string that names no destination; the owner can seal the secret with one (kernos crypto seal --for HOST)`},
		{"a token, by setting", lenient.ring, token, free, fetching("evil.org:443"), ""},
		{"the owner, there", w.ring, owner, bound, fetching("api.example.com:443"), ""},
		{"the owner, elsewhere", w.ring, owner, bound, fetching("evil.org:443"), "it is sealed for api.example.com, Http.*, and not for evil.org:443"},
		{"a token, there", w.ring, token, bound, fetching("api.example.com:443"), ""},
		{"a token, elsewhere", w.ring, token, bound, fetching("evil.org:443"), "not for evil.org:443"},
		{"a token, elsewhere, by setting", lenient.ring, token, bound, fetching("evil.org:443"), "not for evil.org:443"},
		{"a token, with another syscall", w.ring, token, bound, sealed.Use{Syscall: "Mail.Send", Hosts: []string{"api.example.com:443"}}, "not for Mail.Send"},
	} {
		got, to, err := c.ring.Open(c.ctx, c.text, c.use)
		if c.refusal == "" {
			if err != nil || string(got) != "hunter2" || (len(to) == 0) != (c.text == free) {
				t.Errorf("%s: %q, %v, %v", c.name, got, to, err)
			}
			continue
		}
		if e, ok := errors.AsType[*message.Error](err); !ok || e.Code != 403 || !strings.Contains(e.Error(), c.refusal) || got != nil {
			t.Errorf("%s: %q, %v, want %s", c.name, got, err, c.refusal)
		}
	}
}

// Crypto.Open shows every secret to the owner, and to a token that may call it those that are
// for that.
func TestCryptoOpenOfABoundString(t *testing.T) {
	w := newWorld(t, Options{KeyFile: filepath.Join(t.TempDir(), "key")})
	shown := reply[string](w, "Seal", object{"plaintext": "hunter2", "for": []string{"Crypto.Open"}})
	sent := reply[string](w, "Seal", object{"plaintext": "hunter2", "for": []string{"api.example.com"}, "aad": "door"})
	for _, text := range []string{shown, sent, w.seal("hunter2")} {
		if got := w.open(text); got != "hunter2" {
			t.Errorf("opens as %q", got)
		}
	}
	w.act = tokenContext(t)
	if got := w.open(shown); got != "hunter2" {
		t.Errorf("opens as %q", got)
	}
	w.refuse("Open", object{"ciphertext": sent}, 403, "it is sealed for api.example.com")
	w.refuse("Open", object{"ciphertext": w.seal("hunter2")}, 403, `The token "ci"`, "--open-unbound-secrets")
}

func TestSealForNonsense(t *testing.T) {
	w := newWorld(t, Options{KeyFile: filepath.Join(t.TempDir(), "key")})
	w.refuse("Seal", object{"plaintext": "hunter2", "for": []string{"https://api.example.com/"}}, 422, "for", "api.example.com")
	w.refuse("Seal", object{"plaintext": "hunter2", "for": []string{"*"}}, 422, "expected a host")
	text := reply[string](w, "Seal", object{"plaintext": strings.Repeat("ä", maxPlaintext/2), "aad": strings.Repeat("a", 256), "for": []string{strings.Repeat("a.", 118) + "de"}})
	if len(text) > 16_384-700 {
		t.Errorf("the sealed string has %d bytes", len(text))
	}
	// Without a destination, the format is the one that other programs read.
	if text := reply[string](w, "Seal", object{"plaintext": "hunter2", "for": []string{}}); !strings.HasPrefix(text, "pwenc:v1:") {
		t.Error(text)
	}
}
