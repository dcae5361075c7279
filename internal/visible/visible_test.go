package visible

import "testing"

func TestEverythingIsVisible(t *testing.T) {
	for in, want := range map[string]string{
		"plain":                          "plain",
		"a\x1b[0m\n\x7f\u0085\u202e\xff": "a␛[0m␊␡⟨U+0085⟩⟨U+202e⟩�",
	} {
		if got := Text(in); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
	if got := Lines("a\x1b\nb\x7f"); got != "a␛\nb␡" {
		t.Errorf("got %q", got)
	}
}
