package ranked_test

import (
	"slices"
	"strings"
	"testing"

	"kernos/internal/ranked"
)

func TestNames(t *testing.T) {
	for query, want := range map[string]string{
		"why did job 01JAXV5Y2Z4B8Q0R6T7W9E3F1G fail?":    "01JAXV5Y2Z4B8Q0R6T7W9E3F1G",
		"a failed Crypto.Seal":                            "Crypto.Seal",
		"connection_refused, or ECONNREFUSED (code 507).": "connection_refused ECONNREFUSED 507",
		"notes/1 maxRetries a@b.c":                        "notes/1 maxRetries a@b.c",
		"Show me all errors of the 2 HTTP calls - today.": "",
		"e-mail isn't sent":                               "",
	} {
		if got := strings.Join(ranked.Names(query), " "); got != want {
			t.Errorf("%q: got %q, want %q", query, got, want)
		}
	}
}

// The places of a list of words and a list of meaning, by their letters.
func TestFuse(t *testing.T) {
	words := func(letters string) (list []ranked.Worded[string]) {
		exact, rest, _ := strings.Cut(letters, "|")
		for _, k := range strings.Fields(exact) {
			list = append(list, ranked.Worded[string]{k, 1, true})
		}
		for _, k := range strings.Fields(rest) {
			cover := 0.9
			if strings.ToLower(k) != k {
				cover = 0.1 // shares "the" and "all" with the question
			}
			list = append(list, ranked.Worded[string]{k, cover, false})
		}
		return list
	}
	for _, c := range []struct{ words, near, want string }{
		{"|", "a b c", "a b c"},
		{"| a b c", "", "a b c"},
		{"| a b", "b c", "b c a"},           // what both have comes first, then meaning before words
		{"| A B C", "d e f", "d e f A B C"}, // words that cover little of the query count little
		{"a b c |", "c d b", "a b c d"},     // exact words stay on top, in their order
		{"a | b c", "c d a", "a c d b"},
		{"|", "", ""},
	} {
		list, near := words(c.words), strings.Fields(c.near)
		var got []string
		last := 9.0
		for _, p := range ranked.Fuse(list, near) {
			k := ""
			if p.Near >= 0 {
				k = near[p.Near]
			}
			if p.Words >= 0 {
				if k != "" && k != list[p.Words].Key {
					t.Errorf("%+v: %s and %s in one place", c, k, list[p.Words].Key)
				}
				k = list[p.Words].Key
			}
			if p.Score > last || p.Score <= 0 {
				t.Errorf("%+v: the score %v of %s follows %v", c, p.Score, k, last)
			}
			got, last = append(got, k), p.Score
		}
		if s := strings.Join(got, " "); s != c.want {
			t.Errorf("%+v: got %s", c, s)
		}
	}
}

// A page that is made from a longer list of words goes on where the page before it ended.
func TestFusedPages(t *testing.T) {
	for _, exact := range []int{0, 3, ranked.Depth - 1, ranked.Depth + 50} {
		var words []ranked.Worded[int]
		for i := range 3 * ranked.Depth {
			words = append(words, ranked.Worded[int]{i, 1 / float64(1+i%7), i < exact})
		}
		var near []int
		for i := range ranked.Depth { // some that have words, far down too, and some that have none
			near = append(near, []int{i * 5, 10_000 + i}[i%2])
		}
		keys := func(places []ranked.Fused) (keys []int) {
			for _, p := range places {
				if p.Words >= 0 {
					keys = append(keys, p.Words)
				} else {
					keys = append(keys, near[p.Near])
				}
			}
			return keys
		}
		all := keys(ranked.Fuse(words, near))
		if sorted := slices.Compact(slices.Sorted(slices.Values(all))); len(sorted) != len(all) {
			t.Errorf("%d exact: %d places have %d documents", exact, len(all), len(sorted))
		}
		for n := ranked.Depth; n < len(words); n += 37 {
			if got := keys(ranked.Fuse(words[:n], near)); !slices.Equal(got[:n], all[:n]) {
				t.Fatalf("%d exact: the first %d are others with %d words", exact, n, n)
			}
		}
	}
}

func TestProse(t *testing.T) {
	for data, want := range map[string]string{
		`{"code":403,"message":"Operation not allowed: no key for os://vault/a"}`:               "code Forbidden message Operation not allowed no key for os vault a ",
		`{"id":"01JAXV5Y2Z4B8Q0R6T7W9E3F1G","hash":"9f86d081884c7d659a2feaa0c55ad015a3bf4f1b"}`: "id hash ",
		`{"body":"aGVsbG8gd29ybGQhIGFuZCBtb3Jl","when":1735000000000}`:                          "body when ",
		`"[redacted]"`:                        "",
		`{"text":"Caf\u00e9, \"open\"? Yes"}`: "text Café, open? Yes ",
		`12`:                                  "",
		`{"cut":"in the mid`:                  "cut ",
		`{"status": 429,"a":{"code":504}}`:    "status Too Many Requests a code Gateway Timeout ",
		`[{"status":200},{"code":4040},{"code":"ENOENT"},{"code":499},{"code":40`: "status code code ENOENT code code ",
	} {
		if got := string(ranked.AppendProse(nil, []byte(data), 1000)); got != want {
			t.Errorf("%s: got %q, want %q", data, got, want)
		}
	}
	if got := ranked.AppendProse([]byte("x "), []byte(`["`+strings.Repeat("word ", 10_000)+`"]`), 100); len(got) > 110 {
		t.Errorf("%d bytes", len(got))
	}
}
