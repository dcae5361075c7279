package secret

import (
	"slices"
	"testing"
)

func TestParts(t *testing.T) {
	for _, test := range []struct {
		value string
		want  []string
	}{
		{"Bearer abcdef", []string{"abcdef"}},
		{"bearer  abcdef ", []string{"abcdef"}},
		{"Token token=0123456789", []string{"token=0123456789", "0123456789"}},
		{"Basic YWRhOmh1bnRlcjI=", []string{"YWRhOmh1bnRlcjI=", "ada:hunter2", "hunter2"}},
		{"Basic YWRhOmh1bnRlcjI", []string{"YWRhOmh1bnRlcjI", "ada:hunter2", "hunter2"}},
		{"Basic ????", []string{"????"}},
		{`Digest username="ada", realm="r", response="6629fae49393a05397450978507c4ef1"`,
			[]string{`username="ada", realm="r", response="6629fae49393a05397450978507c4ef1"`, "6629fae49393a05397450978507c4ef1"}},
		{"sid=0123456789; lang=en; theme=dark", []string{"0123456789"}},
		{"correct horse battery staple", nil},
		{"postgres://ada:pw@host/db?application=something", nil},
		{"abc", nil}, {"", nil}, {"=0123456789", nil}, {"Bearer", nil},
	} {
		if got := parts(test.value); !slices.Equal(got, test.want) {
			t.Errorf("%s: %q, want %q", test.value, got, test.want)
		}
	}
}
