package sealed

import (
	"strings"
	"testing"

	"kernos/internal/secret"
)

func TestDestinations(t *testing.T) {
	fetch := func(hosts ...string) Use { return Use{Syscall: "Http.Fetch", Hosts: hosts} }
	for _, c := range []struct {
		to   Destination
		use  Use
		fits bool
	}{
		{Destination{"api.example.com"}, fetch("api.example.com:443"), true},
		{Destination{"api.example.com"}, fetch("api.example.com:80"), true},
		{Destination{"api.example.com"}, fetch("API.example.COM.:443"), true},
		{Destination{"api.example.com"}, fetch("api.example.com:8443"), false},
		{Destination{"api.example.com:8443"}, fetch("api.example.com:8443"), true},
		{Destination{"api.example.com:8443"}, fetch("api.example.com:443"), false},
		{Destination{"api.example.com"}, fetch("example.com:443"), false},
		{Destination{"api.example.com"}, fetch("evil-api.example.com:443"), false},
		{Destination{"api.example.com"}, fetch("api.example.com.evil.org:443"), false},
		{Destination{"api.example.com"}, fetch("api.example.com:443", "evil.org:443"), false},
		{Destination{"api.example.com"}, fetch(), false},
		{Destination{"api.example.com"}, Use{Syscall: "Crypto.Open"}, false},
		{Destination{"*.example.com"}, fetch("api.example.com:443"), true},
		{Destination{"*.example.com"}, fetch("a.b.example.com:443"), true},
		{Destination{"*.example.com"}, fetch("example.com:443"), false},
		{Destination{"*.example.com"}, fetch(".example.com:443"), false},
		{Destination{"*.example.com"}, fetch("badexample.com:443"), false},
		{Destination{"*.example.com:8443"}, fetch("a.example.com:8443"), true},
		{Destination{"a.org", "b.org"}, fetch("b.org:443"), true},
		{Destination{"127.0.0.1:8080"}, fetch("127.0.0.1:8080"), true},
		{Destination{"127.0.0.1:8080"}, fetch("127.0.0.1:8081"), false},
		{Destination{"::1"}, fetch("[::1]:443"), true},
		{Destination{"[::1]:8080"}, fetch("[0:0::1]:8080"), true},
		{Destination{"Http.Fetch"}, fetch("anything.org:443"), true},
		{Destination{"Http.*"}, fetch("anything.org:443"), true},
		{Destination{"Mail.*"}, fetch("anything.org:443"), false},
		{Destination{"Http.Fetch", "a.org"}, fetch("a.org:443"), true},
		{Destination{"Http.Fetch", "a.org"}, fetch("b.org:443"), false},
		{Destination{"Mail.Send", "a.org"}, fetch("a.org:443"), false},
		{Destination{"Crypto.Open"}, Use{Syscall: "Crypto.Open"}, true},
		{nil, fetch("anything.org:443"), true},
	} {
		if err := c.to.Check(); err != nil {
			t.Errorf("%s: %v", c.to, err)
		}
		if err := c.to.Refuses(c.use); (err == nil) != c.fits {
			t.Errorf("for %s, %v: %v", c.to, c.use, err)
		}
	}
}

func TestWhatIsNoDestination(t *testing.T) {
	for _, text := range []string{
		"", "*", "*.com", "*.", ".", "a..b", "a.*.b", "a*.example.com", "Example.com.", "EXAMPLE", "https://example.com", "example.com/path", "user@example.com",
		"example.com:0", "example.com:http", "example.com:", "exa mple.com", "exämple.com", "1.2.3", "0x7f.1", "127.1", "-a.com", "a-.com", "*.*", "Http.fetch", "a\x1b[31m.com",
	} {
		if err := (Destination{text}).Check(); err == nil {
			t.Errorf("%q is taken for a destination", text)
		}
	}
	if err := (Destination{"a.de", "b.de", "c.de", "d.de", "e.de", "f.de", "g.de", "h.de", "i.de"}).Check(); err == nil {
		t.Error("nine patterns are taken")
	}
	if err := (Destination{strings.Repeat("a", 237) + ".de", "b.de"}).Check(); err == nil {
		t.Error("long patterns are taken")
	}
}

// A destination is neither changed nor taken away, also not by writing the string as one of
// version 1 whose aad is what was authenticated.
func TestADestinationIsBoundToTheSecret(t *testing.T) {
	c := newTestCipher(t, 7)
	to := Destination{"api.example.com", "Http.Fetch"}
	text := c.Seal(testKid, []byte("hunter2"), "aad", to)
	if !strings.HasPrefix(text, secret.BoundPrefix) {
		t.Fatal(text)
	}
	open := func(change func(*Box)) error {
		box, err := Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		change(&box)
		again, err := Parse(box.String())
		if err != nil {
			t.Fatal(err)
		}
		_, err = c.Open(&again)
		return err
	}
	if err := open(func(*Box) {}); err != nil {
		t.Fatal(err)
	}
	_, with := c.part(&Box{For: to, AAD: "aad"})
	for name, change := range map[string]func(*Box){
		"another":         func(b *Box) { b.For = Destination{"evil.org", "Http.Fetch"} },
		"one fewer":       func(b *Box) { b.For = b.For[:1] },
		"one more":        func(b *Box) { b.For = append(b.For, "evil.org") },
		"another order":   func(b *Box) { b.For = Destination{"Http.Fetch", "api.example.com"} },
		"none":            func(b *Box) { b.For = nil },
		"in the aad":      func(b *Box) { b.For, b.AAD = nil, string(with) },
		"aad":             func(b *Box) { b.AAD = "" },
		"moved to aad":    func(b *Box) { b.For, b.AAD = b.For[:1], `Http.Fetch"]"aad` },
		"a free one's ct": func(b *Box) { free, _ := Parse(c.Seal(testKid, []byte("x"), "", nil)); b.Ciphertext = free.Ciphertext },
	} {
		if err := open(change); err != ErrAltered {
			t.Errorf("%s: %v", name, err)
		}
	}
}
