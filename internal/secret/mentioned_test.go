package secret

import "testing"

func TestMentioned(t *testing.T) {
	for text, want := range map[string]bool{
		"remember my bank password is swordfish":     true,
		"the API key is abc":                         true,
		"use my access token, please: x":             true,
		"my key: sk-0123456789abcdef":                true,
		"AKIAIOSFODNN7EXAMPLE":                       true,
		"clone with ghp_0123456789abcdef0123456789":  true,
		"mysql --password=x":                         true,
		"what is a passphrase?":                      true,
		"":                                           false,
		"what is the key of my note?":                false,
		"how many tokens are left?":                  false,
		"read report-2026-11-19-final.md":            false,
		"internationalization and 1234567890":        false,
		"für Käse: 4711, /model other, @notes/1.txt": false,
	} {
		if got := Mentioned(text); got != want {
			t.Errorf("%s: got %v", text, got)
		}
	}
}
