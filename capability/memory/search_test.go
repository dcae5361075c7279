package memory

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"kernos/store/cursor"
)

// found returns the keys that a search finds, the best first.
func (w *world) found(data string) string {
	w.t.Helper()
	var out searchOutput
	reply := w.ask("Search", data)
	if err := json.Unmarshal(reply.Data, &out); err != nil || reply.Kind != "reply" || out.WordsOnly != "" {
		w.t.Fatalf("%s: %s, %v", data, reply.Data, err)
	}
	var keys []string
	for i, h := range out.Hits {
		keys = append(keys, h.Key)
		if h.Score <= 0 || i > 0 && h.Score > out.Hits[i-1].Score || h.Why.Words == nil && h.Why.Near == 0 {
			w.t.Errorf("%s: %s has score %v because of %+v", data, h.Key, h.Score, h.Why)
		}
	}
	return strings.Join(keys, " ")
}

func TestSearchFindsKeysByWordsAndMeaning(t *testing.T) {
	w := newWorld(t, Options{})
	for key, value := range map[string]string{
		"notes/house": `"the entrance opens with 4711"`, "notes/food": `{"buy":["milk","bread"]}`, "notes/car": `"the automobile needs new tyres"`, "trips/rome": `"flight AZ204 on Friday"`,
	} {
		w.reply("Set", fmt.Sprintf(`{"key":%q,"value":%s}`, key, value), ok)
	}
	w.reply("Set", `{"key":"vault/k","value":"`+wellFormed+`"}`, ok)
	w.reply("Set", `{"key":"notes/sealed","value":{"token":"`+wellFormed+`","about":"a giraffe"}}`, ok)
	w.reply("Set", `{"key":"notes/soon","value":"a penguin","ttl":1000}`, ok)
	for data, want := range map[string]string{
		`{"query":"milk"}`:                                     "notes/food",
		`{"query":"AZ204"}`:                                    "trips/rome",
		`{"query":"4711","mode":"words"}`:                      "notes/house",
		`{"query":"vehicle","mode":"words"}`:                   "",
		`{"query":"vehicle","limit":1}`:                        "notes/car",
		`{"query":"what to drink","mode":"meaning","limit":1}`: "notes/food",
		`{"query":"milk AZ204","prefix":"trips"}`:              "trips/rome",
		`{"query":"penguin","mode":"words"}`:                   "notes/soon",
		`{"query":"vault k","mode":"words"}`:                   "vault/k", // by its key
	} {
		if got := w.found(data); got != want {
			t.Errorf("%s: found %q, want %q", data, got, want)
		}
	}
	if got := w.found(`{"query":"giraffe"}`); strings.Contains(got, "notes/sealed") { // beside something sealed
		t.Errorf("a giraffe: found %q", got)
	}
	if got := w.found(`{"query":"penguin"}`); !strings.HasPrefix(got, "notes/soon") {
		t.Errorf("a penguin: found %q", got)
	}
	w.clock.Add(time.Minute.Milliseconds())
	w.reply("Delete", `{"key":"notes/food"}`, ok)
	for data, gone := range map[string]string{`{"query":"penguin"}`: "notes/soon", `{"query":"milk"}`: "notes/food"} {
		if got := w.found(data); strings.Contains(got, gone) {
			t.Errorf("%s: found %q, which is gone", data, got)
		}
	}
	w.refuse("Search", `{"query":"a","cursor":"x"}`, 422, "Invalid cursor")
	if got := string(w.ask("Search", `{"query":"vault sealed","mode":"words"}`).Data); strings.Contains(got, "pwenc") {
		t.Errorf("a sealed value is shown: %s", got)
	}
}

func TestSearchHasPages(t *testing.T) {
	w := newWorld(t, Options{})
	for i := range 25 {
		w.reply("Set", fmt.Sprintf(`{"key":"notes/%d","value":"word"}`, i), ok)
	}
	seen := map[string]bool{}
	for next := ""; ; {
		var out searchOutput
		if err := json.Unmarshal(w.ask("Search", `{"query":"word","limit":7,"cursor":"`+next+`"}`).Data, &out); err != nil {
			t.Fatal(err)
		}
		for _, h := range out.Hits {
			if seen[h.Key] {
				t.Errorf("%s is on two pages", h.Key)
			}
			seen[h.Key] = true
		}
		if next = out.Cursor; next == "" {
			break
		}
	}
	if got := w.found(`{"query":"word","cursor":"` + cursor.Numbers(cursorSearch, math.MaxInt64) + `"}`); got != "" {
		t.Errorf("after the last page: %s", got)
	}
	if len(seen) != 25 {
		t.Errorf("%d keys", len(seen))
	}
}

func BenchmarkSearch(b *testing.B) {
	w := newWorld(b, Options{})
	for i := range 10_000 {
		w.ask("Set", fmt.Sprintf(`{"key":"notes/%d","value":"a short note about thing %d and what is to be done with it on some day"}`, i, i))
	}
	for _, mode := range []string{"words", "both"} {
		b.Run(mode, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				w.ask("Search", `{"query":"which thing 977 must be done","mode":"`+mode+`"}`)
			}
		})
	}
}
