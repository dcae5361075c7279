// Package ranked finds documents by words, the best first. It is for some thousands of short
// texts that seldom change: an index is built once and never changed.
//
//	x := ranked.New([]ranked.Document{{{Text: "Memory.Set", Weight: 4}, {Text: "Set the value of a key.", Weight: 2}}})
//	hits := x.Search("store a value", 10)
//
// Words are compared without case, in a simple stem, and names in PascalCase are several words.
package ranked

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"unicode"
)

// A Document is some texts.
type Document []Text

// A Text is part of a document. Weight is how much a word in it counts.
type Text struct {
	Text   string
	Weight float64
}

// A Hit is a document that was found: its place in the list that the index was built from, and
// how well it fits. Scores of different queries can't be compared.
type Hit struct {
	Document int
	Score    float64
}

// An Index finds documents. It is safe for concurrent use.
type Index struct {
	documents int
	words     []string // sorted
	postings  map[string][]posting
}

// A posting is a word in a document.
type posting struct {
	document int
	weight   float64
}

// saturation is how fast more of the same word stops counting more, as in BM25. Long documents
// are not held against shorter ones: a syscall with many fields isn't a worse one.
const saturation = 1.2

// New returns the index of documents.
func New(documents []Document) *Index {
	x := &Index{documents: len(documents), postings: make(map[string][]posting)}
	for i, d := range documents {
		weights := make(map[string]float64)
		for _, t := range d {
			for _, w := range Words(t.Text) {
				weights[w] += t.Weight
			}
		}
		for w, weight := range weights {
			x.postings[w] = append(x.postings[w], posting{i, weight})
		}
	}
	for w := range x.postings {
		x.words = append(x.words, w)
	}
	slices.Sort(x.words)
	return x
}

// minPrefix is how long a word of a query must be to find longer words that begin with it, and
// asPrefix is what such a word counts.
const (
	minPrefix = 3
	asPrefix  = 0.4
)

// Search returns the documents that have words of the query, at most limit of them, the best
// first. Documents that fit equally well stay in their order.
func (x *Index) Search(query string, limit int) []Hit {
	scores := make(map[int]float64)
	add := func(word string, factor float64) {
		found := x.postings[word]
		rarity := math.Log(1 + float64(x.documents)/(0.5+float64(len(found))))
		for _, p := range found {
			scores[p.document] += factor * rarity * p.weight * (saturation + 1) / (p.weight + saturation)
		}
	}
	words := Words(query)
	slices.Sort(words)
	for _, w := range slices.Compact(words) {
		add(w, 1)
		if len(w) < minPrefix {
			continue
		}
		i, _ := slices.BinarySearch(x.words, w)
		for ; i < len(x.words) && strings.HasPrefix(x.words[i], w); i++ {
			if x.words[i] != w {
				add(x.words[i], asPrefix)
			}
		}
	}
	hits := make([]Hit, 0, len(scores))
	for d, score := range scores {
		hits = append(hits, Hit{d, score})
	}
	slices.SortFunc(hits, func(a, b Hit) int { return cmp.Or(cmp.Compare(b.Score, a.Score), a.Document-b.Document) })
	return hits[:min(limit, len(hits))]
}

// common are words that say nothing about what is meant.
var common = map[string]bool{
	"a": true, "all": true, "an": true, "and": true, "any": true, "are": true, "as": true, "at": true, "be": true, "by": true, "can": true, "do": true, "for": true,
	"from": true, "how": true, "i": true, "if": true, "in": true, "is": true, "it": true, "its": true, "me": true, "my": true,
	"of": true, "on": true, "or": true, "that": true, "the": true, "there": true, "this": true, "to": true, "want": true, "what": true, "which": true, "with": true,
}

// Words returns the words of a text in the form in which they are compared. A query of nothing
// but common words has those.
func Words(text string) []string {
	var words, all []string
	for _, w := range split(text) {
		w = strings.ToLower(w)
		all = append(all, w)
		if !common[w] {
			words = append(words, stem(w))
		}
	}
	if words == nil {
		return all
	}
	return words
}

// split divides a text at characters that are neither letters nor digits, and before the capital letters of a
// name in PascalCase: VFSRead is VFS and Read.
func split(text string) (words []string) {
	runes := []rune(text)
	start := -1
	end := func(i int) {
		if start >= 0 {
			words = append(words, string(runes[start:i]))
		}
		start = -1
	}
	for i, r := range runes {
		if !unicode.IsLetter(r) && !unicode.IsDigit(r) {
			end(i)
			continue
		}
		if start >= 0 && unicode.IsUpper(r) && (!unicode.IsUpper(runes[i-1]) || i+1 < len(runes) && unicode.IsLower(runes[i+1])) {
			end(i)
		}
		if start < 0 {
			start = i
		}
	}
	end(len(runes))
	return words
}

// stem takes the usual endings off an English word: searches, searching and searched are search.
func stem(w string) string {
	const shortest = 3 // of what is left
	for _, ending := range []string{"ing", "ies", "ed", "es", "s", "e", "y"} {
		rest, ok := strings.CutSuffix(w, ending)
		if ok && len(rest) >= shortest && !(ending == "s" && strings.HasSuffix(rest, "s")) {
			return strings.TrimSuffix(rest, "e")
		}
	}
	return w
}
