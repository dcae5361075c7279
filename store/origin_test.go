package store_test

import (
	"strings"
	"testing"

	"kernos/store"
)

func TestParseOrigin(t *testing.T) {
	for text, want := range map[string]store.Origin{
		"":                          store.DefaultOrigin,
		"kernos":                    "https://kernos.local/",
		"My Agent_2":                "https://my-agent-2.local/",
		"Ünï/../côde!":              "https://ncde.local/",
		"https://example.com/a":     "https://example.com/a",
		"https://Example.com:8443/": "https://Example.com:8443/",
	} {
		if got, err := store.ParseOrigin(text); got != want || err != nil {
			t.Errorf("%q is %q, %v; want %q", text, got, err, want)
		}
	}
	for _, text := range []string{"://", "https://", "!!!", "__", "https://ada:pw@example.com/"} {
		if got, err := store.ParseOrigin(text); err == nil {
			t.Errorf("%q is %q", text, got)
		} else if strings.Contains(err.Error(), "pw") {
			t.Errorf("%q: the password is in the error: %v", text, err)
		}
	}
}

func TestOriginsHaveFoldersOfTheirOwn(t *testing.T) {
	seen := map[string]store.Origin{}
	for _, o := range []store.Origin{"https://a.local/", "https://A.local/", "https://a.local", "https://a.local/b", "http://a.local/", "os://x/../y", store.Origin("https://" + strings.Repeat("x", 300) + "/")} {
		f := o.Folder()
		if other, taken := seen[f]; taken {
			t.Errorf("%q and %q share the folder %s", o, other, f)
		}
		seen[f] = o
		if strings.ContainsAny(f, "/\\: ") || strings.HasPrefix(f, ".") || len(f) > 80 {
			t.Errorf("%q has the folder %q", o, f)
		}
	}
}
