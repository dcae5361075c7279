package content

import (
	"strings"
	"testing"
	"testing/quick"
	"unicode/utf8"
)

func TestTextsAreCutBetweenSigns(t *testing.T) {
	for _, test := range []struct {
		text  string
		limit int
		want  string
	}{
		{"abc", 3, "abc"},
		{"abcd", 3, "abc"},
		{"", 3, ""},
		{"äöüß", 3, "äöü"},
		{"ab\u0301c", 2, "a"},                        // b and its accent
		{"ab\u0301c", 3, "ab\u0301"},                 //
		{"a👩\u200d👧b", 2, "a"},                       // mother and daughter
		{"a👩\u200d👧b", 3, "a"},                       //
		{"a👩\u200d👧b", 4, "a👩\u200d👧"},               //
		{"a👍🏽b", 2, "a"},                             // a thumb and its colour
		{"a❤\ufe0fb", 2, "a"},                        // a heart and its form
		{"क्षि", 1, ""},                              // one syllable
		{"a" + marks(40) + "b", 38, "a" + marks(37)}, // no sign is that long
	} {
		if got := cut(test.text, test.limit); got != test.want {
			t.Errorf("cut(%q, %d) = %q, want %q", test.text, test.limit, got, test.want)
		}
	}
}

func marks(n int) string { return strings.Repeat("\u0301", n) }

func TestCutsAreNeverTooLong(t *testing.T) {
	check := func(text string, limit uint8) bool {
		plain, hinted := cut(text, int(limit)), cutWithHint(text, int(limit)+40)
		return utf8.RuneCountInString(plain) <= int(limit) && strings.HasPrefix(text, plain) &&
			utf8.RuneCountInString(hinted) <= int(limit)+40 && (hinted == text || strings.HasSuffix(hinted, hint))
	}
	if err := quick.Check(check, nil); err != nil {
		t.Error(err)
	}
}
