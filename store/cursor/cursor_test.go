package cursor_test

import (
	"strings"
	"testing"

	"kernos/store"
	"kernos/store/cursor"
	"kernos/store/storetest"
)

func TestACursorIsReadBackByItsListingOnly(t *testing.T) {
	text := cursor.New('a', "notes/ä")
	if got, err := cursor.Parse('a', text, 8); err != nil || got != "notes/ä" {
		t.Errorf("got %q, %v", got, err)
	}
	if got, err := cursor.Parse('a', "", 8); err != nil || got != "" {
		t.Errorf("no cursor: %q, %v", got, err)
	}
	for what, parse := range map[string]func() (string, error){
		"of another listing": func() (string, error) { return cursor.Parse('b', text, 8) },
		"too long":           func() (string, error) { return cursor.Parse('a', text, 7) },
		"not base64":         func() (string, error) { return cursor.Parse('a', "!", 8) },
		"without a name":     func() (string, error) { return cursor.Parse('a', cursor.New('a', ""), 8) },
	} {
		if got, err := parse(); err != cursor.ErrInvalid || got != "" {
			t.Errorf("%s: %q, %v", what, got, err)
		}
	}
}

func TestNumbers(t *testing.T) {
	const most = 1<<64 - 1
	a, b := uint64(1), uint64(2)
	if err := cursor.ParseNumbers('a', "", &a, &b); err != nil || a != 1 || b != 2 {
		t.Errorf("no cursor: %d, %d, %v", a, b, err)
	}
	if err := cursor.ParseNumbers('a', cursor.Numbers('a', 0, most), &a, &b); err != nil || a != 0 || b != most {
		t.Errorf("got %d, %d, %v", a, b, err)
	}
	for _, text := range []string{cursor.Numbers('b', 1, 2), cursor.Numbers('a', 1), cursor.Numbers('a', 1, 2, 3), cursor.New('a', "1 -2"), cursor.New('a', "1 x"), cursor.New('a', "1 99999999999999999999")} {
		if err := cursor.ParseNumbers('a', text, &a, &b); err != cursor.ErrInvalid {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestPages(t *testing.T) {
	s := storetest.NewMemory()
	var b store.Batch
	for i, name := range []string{"1", "2", "3", "4", "5"} {
		b.Set([]byte("n/"+name), []byte([]string{"odd", "even"}[i%2]))
	}
	b.Set([]byte("other"), nil)
	if _, err := s.Apply(&b); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		what string
		cursor.Page
		leave, end string
		want       string
	}{
		{what: "all", Page: cursor.Page{Limit: 9, Looked: 9}, want: "54321"},
		{what: "two of them at a time", Page: cursor.Page{Limit: 2, Looked: 9}, want: "54 32 1"},
		{what: "as many as there are", Page: cursor.Page{Limit: 5, Looked: 9}, want: "54321"},
		{what: "some are left out", Page: cursor.Page{Limit: 2, Looked: 9}, leave: "42", want: "53 1"},
		{what: "two are looked at", Page: cursor.Page{Limit: 9, Looked: 2}, leave: "54", want: " 32 1"},
		{what: "some are passed over by their values", Page: cursor.Page{Limit: 2, Looked: 9, Skip: func(v []byte) bool { return string(v) == "even" }}, want: "53 1"},
		{what: "one is looked at, and others are passed over", Page: cursor.Page{Limit: 9, Looked: 1, Skip: func(v []byte) bool { return string(v) == "even" }}, want: "5 3 1"},
		{what: "it ends early", Page: cursor.Page{Limit: 2, Looked: 9}, end: "2", want: "54 3"},
	} {
		c.Listing, c.Prefix, c.Longest = 'n', []byte("n/"), 1
		var pages []string
		for {
			var names strings.Builder
			next, err := c.Each(t.Context(), s, func(name string) (bool, error) {
				if name == c.end {
					return false, cursor.ErrEnd
				}
				if strings.Contains(c.leave, name) {
					return false, nil
				}
				names.WriteString(name)
				return true, nil
			})
			if err != nil {
				t.Fatal(err)
			}
			pages = append(pages, names.String())
			if c.Cursor = next; next == "" {
				break
			}
		}
		if got := strings.Join(pages, " "); got != c.want {
			t.Errorf("%s: %q, want %q", c.what, got, c.want)
		}
	}
}
