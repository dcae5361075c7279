package visible_test

import (
	"testing"

	"kernos/internal/visible"
)

func TestEverythingIsVisible(t *testing.T) {
	for in, want := range map[string]string{
		"plain":                          "plain",
		"m-12…é�":                        "m-12…é�",
		"a\x1b[0m\n\x7f\u0085\u202e\xff": "a␛[0m␊␡⟨U+0085⟩⟨U+202e⟩�",
	} {
		if got := visible.Text(in); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
	if got := visible.Lines("a\x1b\nb\x7f"); got != "a␛\nb␡" {
		t.Errorf("got %q", got)
	}
}

// Drawing a graph of ten thousand messages asks for each id, most of them shortened.
func TestATextThatIsVisibleIsNotCopied(t *testing.T) {
	if n := testing.AllocsPerRun(10, func() { visible.Text("01J0000…0000000") }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
