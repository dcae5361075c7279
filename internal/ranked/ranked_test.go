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
		"AIs, APIs of VFSs":         {"ai", "api", "vfs"},
		"LastIs AsMuch":             {"last", "much"},
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

// What is said aside doesn't make a document one that has all words, and words that only fill a request don't count.
func TestWordsAsideAndFiller(t *testing.T) {
	x := ranked.New([]ranked.Document{
		{Texts: []ranked.Text{{Text: "Session.Show", Weight: 4}, {Text: "open conversation open conversation open conversation", Weight: 1, Aside: true}}},
		{Texts: []ranked.Text{{Text: "Session.Create", Weight: 4}, {Text: "begin a conversation, open", Weight: 2}}},
		{Texts: []ranked.Text{{Text: "Session.List", Weight: 4}, {Text: "you and your things", Weight: 2}}},
	})
	for query, want := range map[string][]int{"open a conversation": {1, 0}, "you should open your thing": {1, 0}, "your things": {2}} {
		found, err := x.Search(t.Context(), nil, ranked.Query{Text: query, Limit: 10})
		var got []int
		for _, h := range found.Hits {
			got = append(got, h.Document)
		}
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: got %v, %v, want %v", query, got, err, want)
		}
	}
}

// Of several texts about a document, the nearest counts, and the document is found once.
func TestTheNearestTextCounts(t *testing.T) {
	x := ranked.New([]ranked.Document{
		{About: "Remove a file from the disk."},
		{About: "Http.Fetch: Do a request.", Also: []string{"browser", "download a web page", "get a page of a web site"}},
	})
	found, err := x.Search(t.Context(), ranked.NewMeaning(nil), ranked.Query{Text: "fetch a web page", Mode: ranked.ByMeaning, Limit: 10})
	if err != nil || len(found.Hits) == 0 || found.Hits[0].Document != 1 || found.Hits[0].Near < .7 {
		t.Fatalf("got %+v, %v", found, err)
	}
	for _, h := range found.Hits[1:] {
		if h.Document == 1 {
			t.Errorf("found twice: %+v", found.Hits)
		}
	}
}

// What has all words that are left of a sentence doesn't come before what means the same.
func TestALeftOverWordIsNotExact(t *testing.T) {
	x := ranked.New([]ranked.Document{
		{Texts: []ranked.Text{{Text: "Job.Start task task", Weight: 4}}, About: "bake bread"},
		{Texts: []ranked.Text{{Text: "Job.Status task", Weight: 1}}, About: "what does the task do"},
	})
	for query, want := range map[string]int{"task": 0, "what does the task do": 1} {
		found, err := x.Search(t.Context(), ranked.NewMeaning(nil), ranked.Query{Text: query, Limit: 10})
		if err != nil || len(found.Hits) == 0 || found.Hits[0].Document != want {
			t.Errorf("%q: got %+v, %v", query, found.Hits, err)
		}
	}
}

func TestSearch(t *testing.T) {
	x := ranked.New([]ranked.Document{
		{Texts: []ranked.Text{{Text: "Weather.Report", Weight: 4}, {Text: "Report the weather of a city.", Weight: 2}}},
		{Texts: []ranked.Text{{Text: "City.Find", Weight: 4}, {Text: "Find cities by name, and report how large they are.", Weight: 2}}},
		{Texts: []ranked.Text{{Text: "Mail.Send", Weight: 4}, {Text: "Send a mail.", Weight: 2}, {Text: "the weather may be its subject", Weight: 0.3}}},
		{Texts: []ranked.Text{{Text: "Mail.Sort", Weight: 4}, {Text: "Sort mails.", Weight: 2}}},
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
