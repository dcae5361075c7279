package main

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"strings"
	"unicode"

	"kernos/internal/embed"
)

// A text is the entries of its words.
//
// A vocabulary is the words that the table has: the most frequent ones of the corpus, and pieces
// that other words end with.
type text []int32

type vocabulary struct {
	words []string
	index map[string]int32
	share map[string]float64 // how much of all words it is
}

// pieces is how many of the entries are pieces.
const pieces = 1000

func split(text string, word func(string)) {
	for words := (embed.Words{Text: text}); ; {
		w := words.Next()
		if w == nil {
			return
		}
		word(string(w))
	}
}

func newVocabulary(c *corpus, size int) *vocabulary {
	v := &vocabulary{index: map[string]int32{}, share: map[string]float64{}}
	general, technical := map[string]int{}, map[string]int{}
	for _, text := range c.general {
		split(text, func(w string) { general[w]++ })
	}
	for _, text := range c.technical {
		split(text, func(w string) { technical[w]++ })
	}
	for _, counts := range []map[string]int{general, technical, c.spoken} {
		total := 0
		for _, n := range counts {
			total += n
		}
		for w, n := range counts {
			v.share[w] += float64(n) / float64(total) / 3
		}
	}
	byCount := func(counts map[string]float64, most int) []string {
		var list []string
		for w := range counts {
			list = append(list, w)
		}
		slices.SortFunc(list, func(a, b string) int { return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a, b)) })
		return list[:min(most, len(list))]
	}
	plain := map[string]float64{}
	for w, n := range v.share {
		digits := strings.ContainsAny(w, "0123456789")
		if !strings.ContainsFunc(w, func(r rune) bool { return r > unicode.MaxASCII }) && (!digits || len(w) == 3) && len(w) > 1 {
			plain[w] = n
		}
	}
	v.words = byCount(plain, size-pieces)
	for i, w := range v.words {
		v.index[w] = int32(i)
	}
	// A piece is the end of words that begin with a word of the table.
	endings := map[string]float64{}
	for w := range v.share {
		for at := 3; at < len(w); at++ {
			if _, ok := v.index[w[:at]]; ok && len(w)-at <= 6 {
				endings["#"+w[at:]] += float64(len(w) - at)
			}
		}
	}
	v.words = append(v.words, byCount(endings, pieces)...)
	for i, w := range v.words {
		v.index[w] = int32(i)
	}
	return v
}

// whole returns the entries that are words.
func (v *vocabulary) whole() []string { return slices.Clip(v.words[:len(v.words)-pieces]) }

// weight is how much a word counts at first: less, the more frequent it is.
func (v *vocabulary) weight(i int) float32 {
	if v.words[i][0] == '#' {
		return 0.3
	}
	const a = 5e-4
	return float32(a / (a + v.share[v.words[i]]))
}

// text returns the entries of a text. With a source of randomness, one word in ten is taken apart
// as if the table lacked it, so that its parts are taught too.
func (v *vocabulary) text(s string, r *rand.Rand) text {
	var x text
	split(s, func(w string) {
		i, known := v.index[w]
		apart := known && r != nil && r.IntN(10) == 0
		if apart {
			delete(v.index, w)
		}
		x = embed.Entries(v.index, []byte(w), x)
		if apart {
			v.index[w] = i
		}
	})
	return x
}

// dress returns the words that questions and messages come with, which don't matter for what is meant: the table learns to disregard them.
func (v *vocabulary) dress() map[string][]text {
	entries := map[string][]text{}
	for where, texts := range map[string][]string{"question": questions, "type": types, "kind": kinds, "field": fields} {
		for _, t := range texts {
			if x := v.text(t, nil); len(x) > 0 {
				entries[where] = append(entries[where], x)
			}
		}
	}
	return entries
}

var (
	questions = []string{"which", "what", "who", "when did", "where is the", "show me all", "find", "was there a", "did", "is there", "list the", "how do I", "why did",
		"somebody", "someone", "I want to know", "messages about", "what happened to", "which one of them", "has it been", "the one that", "how much", "a", "the", "we", "my", "it was",
		"give me everything related to", "who did", "could not be", "which of our", "what is", "related to", "when was", "because", "have we", "did anyone", "from whom"}
	types = []string{"Session.Appended", "Session.Changed", "Memory.Changed", "Memory.Set", "Item.Created", "Item.Changed", "Event.Received", "Message.Received", "Entry.Created", "Status.Changed",
		"Data.Received", "Item.Done", "Http.Fetch", "VFS.Read", "Job.Done", "Note.Created", "Record.Stored"}
	kinds  = []string{"event", "reply", "command", "query", "error"}
	fields = []string{"code", "message", "text", "name", "value", "key", "data", "status", "url", "type", "kind", "id", "reason", "title", "by", "from", "to", "at", "role user", "role assistant", "state", "result", "count",
		"bytes", "path", "uri", "file", "attempt", "number", "https example test", "os root", "notes", "level", "place", "subject", "label", "device", "metric", "service", "content", "description", "error"}
)
