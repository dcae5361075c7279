package sealed_test

import (
	"bytes"
	"testing"

	"kernos/internal/sealed"
)

func TestKidsAreComparedAsBytes(t *testing.T) {
	// The fingerprint of a key as ssh-add -l shows it, and as others write it.
	const openssh = "ssh-fp:SHA256:+/7ZuvbZKrJXDVM2vYYUMUWYMqJHBdAxUFDGa+b2Vh8"
	const url = "ssh-fp:SHA256:-_7ZuvbZKrJXDVM2vYYUMUWYMqJHBdAxUFDGa-b2Vh8"
	first, err := sealed.ParseKid(openssh)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{url, url + "=", openssh + "="} {
		if kid, err := sealed.ParseKid(text); err != nil || kid != first {
			t.Errorf("%s: %v, %v", text, kid, err)
		}
	}
	if first.String() != url {
		t.Errorf("written as %s", first)
	}
	local, err := sealed.ParseKid("kernos-local" + url[6:])
	if err != nil || local == first || local.Digest != first.Digest || local.String() != "kernos-local"+url[6:] {
		t.Errorf("a local one is %v, %v", local, err)
	}
}

func TestWhatIsNoKid(t *testing.T) {
	for _, text := range []string{
		"", "hunter2", "ssh-fp:", "ssh-fp:SHA256:", "ssh-fp:SHA256:hunter2", "SHA256:-_7ZuvbZKrJXDVM2vYYUMUWYMqJHBdAxUFDGa-b2Vh8",
		"ssh-fp:MD5:-_7ZuvbZKrJXDVM2vYYUMUWYMqJHBdAxUFDGa-b2Vh8", "other:SHA256:-_7ZuvbZKrJXDVM2vYYUMUWYMqJHBdAxUFDGa-b2Vh8",
		"ssh-fp:SHA256:-_7ZuvbZKrJXDVM2vYYUMUWYMqJHBdAxUFDGa-b2Vh8AA", "ssh-fp:SHA256:-_7ZuvbZKrJXDVM2vYYUMUWYMqJHBdAxUFDGa-b2Vh9",
		"ssh-fp:SHA256:-_7ZuvbZKrJXDVM2vYYUMUWYMqJHBdAxUFDGa-b2\nVh8",
	} {
		if kid, err := sealed.ParseKid(text); err == nil {
			t.Errorf("%q is taken for %v", text, kid)
		} else if bytes.Contains([]byte(err.Error()), []byte("hunter2")) {
			t.Errorf("the error quotes: %v", err)
		}
	}
}

func FuzzParseKid(f *testing.F) {
	f.Add("ssh-fp:SHA256:+/7ZuvbZKrJXDVM2vYYUMUWYMqJHBdAxUFDGa+b2Vh8")
	f.Add("kernos-local:SHA256:")
	f.Fuzz(func(t *testing.T, text string) {
		kid, err := sealed.ParseKid(text)
		if err != nil {
			return
		}
		if again, err := sealed.ParseKid(kid.String()); err != nil || again != kid {
			t.Fatalf("%q is %v, which is %v, %v", text, kid, again, err)
		}
	})
}
