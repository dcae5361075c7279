package ranked_test

import (
	"slices"
	"testing"

	"kernos/internal/ranked"
)

func TestWords(t *testing.T) {
	for text, want := range map[string][]string{
		"Memory.Set":                {"memor", "set"},
		"VFSRead os://a_b":          {"vfs", "read", "os", "b"},
		"stores storing store":      {"stor", "stor", "stor"},
		"Searches the memories":     {"search", "memor"},
		"what is it":                {"what", "is", "it"},
		"pass":                      {"pass"},
		"":                          nil,
		"—":                         nil,
		"Größe groß":                {"größ", "groß"},
		"HTTPRequest2 getURLOfPage": {"http", "request2", "get", "url", "pag"},
	} {
		if got := ranked.Words(text); !slices.Equal(got, want) {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}

func TestSearch(t *testing.T) {
	x := ranked.New([]ranked.Document{
		{Texts: []ranked.Text{{"Weather.Report", 4}, {"Report the weather of a city.", 2}}},
		{Texts: []ranked.Text{{"City.Find", 4}, {"Find cities by name, and report how large they are.", 2}}},
		{Texts: []ranked.Text{{"Mail.Send", 4}, {"Send a mail.", 2}, {"the weather may be its subject", 0.3}}},
		{Texts: []ranked.Text{{"Mail.Sort", 4}, {"Sort mails.", 2}}},
	})
	for _, c := range []struct {
		query string
		limit int
		want  []int
	}{
		{"weather", 10, []int{0, 2}}, // in the name counts more
		{"reporting", 10, []int{0, 1}},
		{"weather in a city", 1, []int{0}},
		{"MAIL", 10, []int{2, 3}}, // equally good: in their order
		{"wea", 10, []int{0, 2}},  // a beginning of a word
		{"we", 10, nil},           // a beginning that is too short
		{"the of", 10, nil},
		{"volcano", 10, nil},
		{"", 10, nil},
	} {
		var got []int
		found, err := x.Search(t.Context(), nil, ranked.Query{Text: c.query, Limit: c.limit})
		if err != nil {
			t.Fatal(err)
		}
		for i, h := range found.Hits {
			got = append(got, h.Document)
			if h.Score <= 0 || i > 0 && h.Score > found.Hits[i-1].Score {
				t.Errorf("%q: the scores don't fall: %v", c.query, found.Hits)
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%q: got %v, want %v", c.query, got, c.want)
		}
	}
}
