package uri_test

import (
	"testing"

	"kernos/internal/uri"
)

func TestScheme(t *testing.T) {
	for text, want := range map[string]string{
		"os://a": "os", "HTTPS://x": "HTTPS", "a+b-c.1:x": "a+b-c.1", "mailto:a": "mailto",
		"": "", "a": "", "a/b:c": "", "./a:b": "", "C:/notes": "", ":x": "", "1a:x": "", "ä:x": "", "os": "",
	} {
		if got := uri.Scheme(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
