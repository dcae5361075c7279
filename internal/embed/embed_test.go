package embed

import (
	"math"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestVectorsHaveUnitLength(t *testing.T) {
	m := English()
	texts := []string{"a failed Crypto.Seal", "connection_refused", "fetching", "", "  -- ", "01J9ZC3M8QK5"}
	vectors, err := m.Embed(t.Context(), texts)
	if err != nil {
		t.Fatal(err)
	}
	for i, v := range vectors {
		want := 1.0
		if i >= 3 {
			want = 0 // a text without words
		}
		if sum := near(v, v); len(v) != m.Dimensions() || math.Abs(sum-want) > 1e-5 {
			t.Errorf("%q: %d dimensions, square length %v, want %v", texts[i], len(v), sum, want)
		}
	}
}

func near(a, b []float32) (sum float64) {
	for i := range a {
		sum += float64(a[i]) * float64(b[i])
	}
	return sum
}

// TestMeaning: of the texts after the first, the one that means the same is the nearest.
func TestMeaning(t *testing.T) {
	for _, texts := range [][]string{
		{"Show me all errors related to sealing encrypted data", "Crypto.Seal error: encryption key unavailable", "Http.Fetch error: no such host", "Memory.Set reply ok", "Job.Schedule error: cron expression"},
		{"the network is down", "connection_refused", "disk full", "permission denied", "birthday party"},
		{"remove a file", "delete document", "create folder", "send message", "weather report"},
		{"purchase", "buy", "sleep", "mountain", "temperature"},
		{"authorization", "permissions", "weather", "cooking", "music"},
	} {
		vectors, err := English().Embed(t.Context(), texts)
		if err != nil {
			t.Fatal(err)
		}
		for i := 2; i < len(texts); i++ {
			if a, b := near(vectors[0], vectors[1]), near(vectors[0], vectors[i]); a <= b {
				t.Errorf("%q is nearer to %q (%.2f) than to %q (%.2f)", texts[0], texts[i], b, texts[1], a)
			}
		}
	}
}

func words(text string) (found []string) {
	w := Words{Text: text}
	for word := w.Next(); word != nil; word = w.Next() {
		found = append(found, string(word))
	}
	return found
}

func TestWords(t *testing.T) {
	for text, want := range map[string]string{
		"Crypto.Seal":                            "crypto seal",
		"connection_refused":                     "connection refused",
		"maxRetriesExceeded HTTPServer URLs VFS": "max retries exceeded http server urls vfs",
		"utf8 sha256 v1 s3":                      "utf 8 sha 256 v 1 s 3",
		"01J9ZC3M8QK5V7W2X4Y6T8R0NP 9f86d081":    "",
		`{"kind":"error","data":{"code":404}}`:   "kind error data code 404",
		"don't stop":                             "don t stop",
		"Über ÄPFEL":                             "über äpfel",
		"os://root/notes/1":                      "os root notes 1",
		"":                                       "",
	} {
		if got := strings.Join(words(text), " "); got != want {
			t.Errorf("%q has the words %q, want %q", text, got, want)
		}
	}
}

func TestUnknownWordsAreTakenApart(t *testing.T) {
	entries := map[string]int32{"encrypt": 0, "key": 1, "space": 2, "#ing": 3, "#s": 4, "404": 5}
	for word, want := range map[string][]int32{
		"encrypt": {0}, "encrypting": {0, 3}, "keyspace": {1, 2}, "keyspaces": {1, 2, 4}, "encryptzzs": {0, 4}, "404": {5}, "405": nil, "ke": nil, "zebra": nil,
	} {
		if got := Entries(entries, []byte(word), nil); !slices.Equal(got, want) {
			t.Errorf("%s is %v, want %v", word, got, want)
		}
	}
}

func TestTablesThatAreBrokenAreRefused(t *testing.T) {
	for _, data := range []string{"", magic, magic + "\x01\x00\x00\x00\x01\x00\x00\x00\x02\x00\x00\x00a\n", file[:len(file)-1], file + "x"} {
		if _, err := readTable(data); err == nil {
			t.Errorf("a table of %d bytes is read", len(data))
		}
	}
}

func FuzzWords(f *testing.F) {
	for _, text := range []string{"Crypto.Seal", "01J9ZC3M8QK5", "Über", "\xff\xfeA", "HTTPServers", "1a2b", strings.Repeat("Ⱥ", 99)} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		w := Words{Text: text}
		for word := w.Next(); word != nil; word = w.Next() {
			if len(word) == 0 || len(word) > longestWord || !utf8.Valid(word) {
				t.Fatalf("%q has the word %q", text, word)
			}
		}
		vectors, err := English().Embed(t.Context(), []string{text})
		if err != nil {
			t.Fatal(err)
		}
		if length := near(vectors[0], vectors[0]); length != 0 && math.Abs(length-1) > 1e-4 {
			t.Fatalf("%q has a vector of square length %v", text, length)
		}
	})
}

func TestEmbeddingAllocatesNothingButTheResult(t *testing.T) {
	texts := []string{`{"type":"Http.Fetch","data":{"message":"lookup unresolvablehost.example: no such host"}}`}
	m := English()
	if n := testing.AllocsPerRun(100, func() { _, _ = m.Embed(t.Context(), texts) }); n > 2 {
		t.Errorf("%v allocations for the list and one vector", n)
	}
}

func BenchmarkEnglish(b *testing.B) {
	texts := []string{`{"type":"Http.Fetch","kind":"error","data":{"code":502,"message":"dial tcp 203.0.113.5:443: connect: connection refused"}}`}
	m := English()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := m.Embed(b.Context(), texts); err != nil {
			b.Fatal(err)
		}
	}
}
