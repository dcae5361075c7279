package cursor

import "testing"

func TestACursorIsReadBackByItsListingOnly(t *testing.T) {
	text := New('a', "notes/ä")
	if got, err := Parse('a', text, 8); err != nil || got != "notes/ä" {
		t.Errorf("got %q, %v", got, err)
	}
	if got, err := Parse('a', "", 8); err != nil || got != "" {
		t.Errorf("no cursor: %q, %v", got, err)
	}
	for what, parse := range map[string]func() (string, error){
		"of another listing": func() (string, error) { return Parse('b', text, 8) },
		"too long":           func() (string, error) { return Parse('a', text, 7) },
		"not base64":         func() (string, error) { return Parse('a', "!", 8) },
		"without a name":     func() (string, error) { return Parse('a', New('a', ""), 8) },
	} {
		if got, err := parse(); err != ErrInvalid || got != "" {
			t.Errorf("%s: %q, %v", what, got, err)
		}
	}
}
