package sealed_test

import (
	"errors"
	"slices"
	"testing"

	"kernos/internal/sealed"
)

func TestReplace(t *testing.T) {
	for _, test := range []struct {
		text, want string
		asked      []string
	}{
		{"", "", nil},
		{"Bearer token", "Bearer token", nil},
		{"pwenc:v1", "pwenc:v1", nil},
		{"pwenc:v1:ab-_9", "<>", []string{"pwenc:v1:ab-_9"}},
		{"Bearer pwenc:v1:ab", "Bearer <>", []string{"pwenc:v1:ab"}},
		{"a=pwenc:v1:ab; b=\"pwenc:v1:cd\",", "a=<>; b=\"<>\",", []string{"pwenc:v1:ab", "pwenc:v1:cd"}},
		{"pwenc:v1:", "<>", []string{"pwenc:v1:"}},
		{"pwenc:v1:ab==;", "<>;", []string{"pwenc:v1:ab=="}},
		{"pwenc:v1:abpwenc:v1:cd", "<>:v1:cd", []string{"pwenc:v1:abpwenc"}},
		{"pwenc:v1:pwenc:v1:cd", "<>:v1:cd", []string{"pwenc:v1:pwenc"}},
		{"pwenc:v2:ab pwenc:v1:cd pwenc:v3:ef", "<> <> pwenc:v3:ef", []string{"pwenc:v2:ab", "pwenc:v1:cd"}},
		{"pwenc:v1:ab pwenc:v2:cd", "<> <>", []string{"pwenc:v1:ab", "pwenc:v2:cd"}},
		{"xpwenc:v1:abü", "x<>ü", []string{"pwenc:v1:ab"}},
	} {
		var asked []string
		got, err := sealed.Replace(test.text, func(s string) ([]byte, error) {
			asked = append(asked, s)
			return []byte("<>"), nil
		})
		if err != nil || got != test.want || !slices.Equal(asked, test.asked) {
			t.Errorf("%q: %q, %q, %v", test.text, got, asked, err)
		}
		if sealed.In(test.text) != (len(test.asked) > 0) {
			t.Errorf("In(%q) is wrong", test.text)
		}
	}
}

// What was opened is not looked at again: it is not for us to read.
func TestReplaceLooksOnce(t *testing.T) {
	got, err := sealed.Replace("pwenc:v1:a", func(string) ([]byte, error) { return []byte("pwenc:v1:b"), nil })
	if err != nil || got != "pwenc:v1:b" {
		t.Errorf("%q, %v", got, err)
	}
	wrong := errors.New("closed")
	got, err = sealed.Replace("x pwenc:v1:a", func(string) ([]byte, error) { return nil, wrong })
	if err != wrong || got != "" {
		t.Errorf("%q, %v", got, err)
	}
}
