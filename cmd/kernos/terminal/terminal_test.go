package terminal

import (
	"strings"
	"testing"
)

func TestTextsFitTheirColumns(t *testing.T) {
	for _, text := range []string{"", "a", "abcdefghij", "漢字漢字漢字", "e\u0301e\u0301e\u0301e\u0301", "a漢b字c", "😀😀😀", strings.Repeat("x", 100)} {
		for most := 2; most < 14; most++ {
			for name, got := range map[string]string{"clip": Clip(text, most), "middle": ClipMiddle(text, most)} {
				if Columns(got) > most {
					t.Errorf("%s(%q, %d) = %q has %d columns", name, text, most, got, Columns(got))
				}
				if Columns(text) <= most && got != text {
					t.Errorf("%s(%q, %d) = %q though it fits", name, text, most, got)
				}
			}
			if got := Pad(text, most); Columns(got) != most {
				t.Errorf("pad(%q, %d) = %q has %d columns", text, most, got, Columns(got))
			}
		}
	}
	for _, c := range []struct{ got, want string }{
		{Clip("abcdef", 4), "abc…"},
		{Clip("漢字漢", 5), "漢字…"},
		{Clip("漢字漢", 4), "漢…"},
		{ClipMiddle("abcdefghij", 5), "ab…ij"},
	} {
		if c.got != c.want {
			t.Errorf("got %q, want %q", c.got, c.want)
		}
	}
}

func TestBarLine(t *testing.T) {
	half := 0.5
	if got := barLine("digging", &half, 80); got != "["+strings.Repeat("█", 12)+strings.Repeat("░", 12)+"]  50% digging" {
		t.Errorf("got %q", got)
	}
	if got := barLine("digging\x1b[2J", nil, 10); Columns(got) != 10 || strings.Contains(got, "\x1b") {
		t.Errorf("got %q", got)
	}
	over := 7.0
	if got := barLine("x", &over, 80); !strings.Contains(got, "100%") {
		t.Errorf("got %q", got)
	}
}
