// Package ranked finds documents by words, by meaning, or by both, the best first. An [Index] is
// for some thousands of short texts: it is built once and never changed.
//
//	x := ranked.New([]ranked.Document{{Texts: []ranked.Text{{Text: "Memory.Set", Weight: 4}, {Text: "Set the value of a key.", Weight: 2}}}})
//	found, err := x.Search(ctx, meaning, ranked.Query{Text: "keep a note", Limit: 10})
//
// Words are compared without case, in a simple stem, and names in PascalCase are several words.
// Meaning is compared by the vectors of a model ([Meaning]). What has an index of its own joins its
// lists with [Fuse].
//
// # Goroutines
//
//   - The timer of a [Meaning] that forgets vectors which aren't used, for a moment, one.
package ranked

import (
	"cmp"
	"context"
	"math"
	"slices"
	"strings"
	"sync/atomic"
	"unicode"
	"unicode/utf8"
)

// A Document is some texts, and what they are about: the text whose meaning is compared. A
// document without it is found by its words only. Also are other texts about the same: the nearest of all counts.
type Document struct {
	Texts []Text
	About string
	Also  []string
}

// A Text is part of a document. Weight is how much a word in it counts. What is said aside, such as in the description of
// a detail, doesn't make the document one that has all words of a query.
type Text struct {
	Text   string
	Weight float64
	Aside  bool
}

// A Query asks for documents.
type Query struct {
	Text   string
	Mode   Mode
	Limit  int
	Offset uint64 // index of the first result that is wanted
}

// Found is what a query has found.
type Found struct {
	Hits       []Hit
	Total      int
	Next       uint64 // the offset of the next page; 0 means that this is the last one
	Unembedded int    // documents whose meaning isn't known yet: there was no time for more

	// Unavailable is why a query that should go by meaning went by words only, or nil.
	Unavailable error
}

// A Hit is a document that was found: its place in the list that the index was built from, how
// well it fits, and why. Scores of different queries can't be compared.
type Hit struct {
	Document int
	Score    float64
	Why
}

// An Index finds documents. It is safe for concurrent use.
type Index struct {
	documents int
	words     []string // sorted
	postings  map[string][]posting
	about     []string // the texts whose meaning is compared
	aboutOf   []int    // the document of each
	vectors   atomic.Pointer[vectors]
}

// vectors are those of an index, once it was asked by meaning.
type vectors struct {
	of   *Meaning
	list []vector
}

// A posting is a word in a document.
type posting struct {
	document int
	weight   float64
	aside    bool // the document has the word aside only
}

// saturation is how fast more of the same word stops counting more, as in BM25. Long documents
// are not held against shorter ones: a syscall with many fields isn't a worse one.
const saturation = 1.2

// New returns the index of documents.
func New(documents []Document) *Index { return newIndex(documents, nil) }

// Search finds documents among some that change too often for an index that is kept. It indexes no
// more of them than the query asks for.
func Search(ctx context.Context, m *Meaning, documents []Document, q Query) (Found, error) {
	return newIndex(documents, queryTerms(q.Text)).Search(ctx, m, q)
}

// newIndex indexes the words of documents: all of them, or those that some terms find.
func newIndex(documents []Document, only []term) *Index {
	x := &Index{documents: len(documents), postings: make(map[string][]posting)}
	weights, main := make(map[string]float64), make(map[string]bool)
	for i, d := range documents {
		for _, text := range slices.Concat([]string{d.About}, d.Also) {
			x.about, x.aboutOf = append(x.about, text), append(x.aboutOf, i)
		}
		for _, t := range d.Texts {
			if only != nil && !mayHave(t.Text, only) {
				continue
			}
			for _, w := range Words(t.Text) {
				if only == nil || slices.ContainsFunc(only, func(t term) bool { return t.finds(w) }) {
					weights[w] += t.Weight
					main[w] = main[w] || !t.Aside
				}
			}
		}
		for w, weight := range weights {
			x.postings[w] = append(x.postings[w], posting{i, weight, !main[w]})
		}
		clear(weights)
		clear(main)
	}
	for w := range x.postings {
		x.words = append(x.words, w)
	}
	slices.Sort(x.words)
	return x
}

// mayHave reports whether a text may have a word that a term finds: what is compared of a word is its beginning.
func mayHave(text string, terms []term) bool {
	lower := strings.ToLower(text)
	return slices.ContainsFunc(terms, func(t term) bool { return strings.Contains(lower, t.word) })
}

// minPrefix is how long a word of a query must be to find longer words that begin with it, and
// asPrefix is what such a word counts.
const (
	minPrefix = 3
	asPrefix  = 0.4
)

// A term is a word of a query.
type term struct {
	word, shown string // the word as it is compared, and as it was written
	name        bool   // the word is part of a name, a code or an id
}

func (t term) finds(word string) bool {
	return word == t.word || t.begins() && strings.HasPrefix(word, t.word)
}

// begins reports whether longer words may begin with the term. Three letters have to be all that was written: note isn't
// the beginning of notification.
func (t term) begins() bool {
	return len(t.word) > minPrefix || len(t.word) == minPrefix && len(t.shown) == minPrefix
}

// maxTerms is how many different words of a query count.
const maxTerms = 64

func queryTerms(query string) (terms []term) {
	var names []string
	for _, n := range Names(query) {
		names = append(names, Words(n)...)
	}
	words, shown := wordsOf(query)
	plain := slices.ContainsFunc(shown, func(w string) bool { return !filler[strings.ToLower(w)] })
	for i, w := range words {
		if plain && filler[strings.ToLower(shown[i])] {
			continue
		}
		if len(terms) < maxTerms && !slices.ContainsFunc(terms, func(t term) bool { return t.word == w }) {
			terms = append(terms, term{w, shown[i], slices.Contains(names, w)})
		}
	}
	return terms
}

// Search returns the documents that fit a query, at most limit of them, the best first. Documents
// that fit equally well stay in their order. If there are no vectors, it goes by words and reports why.
func (x *Index) Search(ctx context.Context, m *Meaning, q Query) (found Found, err error) {
	terms := queryTerms(q.Text)
	var words []matched
	if q.Mode.Words() {
		words = x.byWords(terms)
	}
	var near []nearby
	if q.Mode.Meaning() && m != nil {
		if near, found.Unembedded, found.Unavailable = x.byMeaning(ctx, m, q.Text); found.Unavailable != nil {
			if ctx.Err() != nil {
				return found, ctx.Err()
			}
			if q.Mode == ByMeaning {
				words = x.byWords(terms)
			}
		}
	}
	// A document with all the words that are left of a sentence doesn't have the whole sentence.
	whole := len(near) == 0 || len(terms) == len(split(q.Text)) || len(Names(q.Text)) > 0
	worded, keys := make([]Worded[int], len(words)), make([]int, len(near))
	for i, w := range words {
		worded[i] = Worded[int]{w.document, w.cover, w.exact && whole}
	}
	for i, n := range near {
		keys[i] = n.document
	}
	places := Fuse(worded, keys)
	found.Total = len(places)
	first := int(min(q.Offset, uint64(len(places))))
	for _, p := range places[first:min(first+q.Limit, len(places))] {
		h := Hit{Score: p.Score}
		if p.Near >= 0 {
			h.Document, h.Near = near[p.Near].document, near[p.Near].near
		}
		if p.Words >= 0 {
			h.Document = words[p.Words].document
			if len(near) == 0 {
				h.Score = words[p.Words].score
			}
			for i, t := range terms {
				if words[p.Words].terms&(1<<i) != 0 {
					h.Words = append(h.Words, t.shown)
				}
			}
		}
		found.Hits = append(found.Hits, h)
	}
	if next := first + len(found.Hits); len(found.Hits) > 0 && next < len(places) {
		found.Next = uint64(next)
	}
	return found, nil
}

// matched is a document that has words of a query.
type matched struct {
	document     int
	score, cover float64
	terms        uint64 // a bit for each that it has
	main         uint64 // a bit for each that it doesn't only have aside
	exact        bool
}

// byWords returns the documents that have words of a query, the best first.
func (x *Index) byWords(terms []term) []matched {
	byDocument := make(map[int]*matched)
	var all, names uint64
	total, bonus := 0.0, 0.0 // what all terms count; more than a document that isn't exact has
	for i, t := range terms {
		bit := uint64(1) << i
		all |= bit
		if t.name {
			names |= bit
		}
		rarest := 0.0
		add := func(word string, factor float64) {
			found := x.postings[word]
			rarity := math.Log(1 + float64(x.documents)/(0.5+float64(len(found))))
			if factor == asPrefix && rarest > 0 { // a rare word that only begins with the term isn't worth more than the term
				rarity = min(rarity, rarest)
			}
			rarest = max(rarest, rarity)
			bonus += factor * rarity * (saturation + 1)
			for _, p := range found {
				m := byDocument[p.document]
				if m == nil {
					m = &matched{document: p.document}
					byDocument[p.document] = m
				}
				m.score += factor * rarity * p.weight * (saturation + 1) / (p.weight + saturation)
				if m.terms |= bit; !p.aside && m.main&bit == 0 {
					m.main |= bit
					m.cover += rarity
				}
			}
		}
		if len(x.postings[t.word]) > 0 {
			add(t.word, 1)
		}
		if t.begins() {
			n, _ := slices.BinarySearch(x.words, t.word)
			for ; n < len(x.words) && strings.HasPrefix(x.words[n], t.word); n++ {
				if x.words[n] != t.word {
					add(x.words[n], asPrefix)
				}
			}
		}
		total += rarest
	}
	hits := make([]matched, 0, len(byDocument))
	for _, m := range byDocument {
		m.cover = min(1, m.cover/total)
		if m.exact = m.main == all || names != 0 && m.main&names == names; m.exact {
			m.score += bonus
		}
		hits = append(hits, *m)
	}
	slices.SortFunc(hits, func(a, b matched) int { return cmp.Or(cmp.Compare(b.score, a.score), a.document-b.document) })
	return hits
}

// nearby is a document that is near to a query in meaning.
type nearby struct {
	document int
	near     float64
}

// byMeaning returns the documents that are near to a query in meaning, the nearest first.
func (x *Index) byMeaning(ctx context.Context, m *Meaning, query string) (found []nearby, left int, err error) {
	about := About(query)
	if about == "" {
		return nil, 0, nil
	}
	asked, _, err := m.vectors(ctx, []string{about})
	if err != nil {
		return nil, 0, err
	}
	v := x.vectors.Load()
	if v == nil || v.of != m {
		v = &vectors{of: m}
		if v.list, left, err = m.vectors(ctx, x.about); err != nil {
			return nil, 0, err
		}
		if left == 0 {
			x.vectors.Store(v)
		}
	}
	for i, d := range v.list {
		n := cosine(asked[0], d)
		switch last := len(found) - 1; {
		case n < MinNear:
		case last >= 0 && found[last].document == x.aboutOf[i]:
			found[last].near = max(found[last].near, n)
		default:
			found = append(found, nearby{x.aboutOf[i], n})
		}
	}
	slices.SortStableFunc(found, func(a, b nearby) int { return cmp.Compare(b.near, a.near) })
	return found[:min(len(found), Depth)], left, nil
}

// common are words that occur in texts about everything.
var common = map[string]bool{
	"a": true, "all": true, "an": true, "and": true, "any": true, "are": true, "as": true, "at": true, "be": true, "by": true, "can": true, "do": true, "for": true,
	"from": true, "how": true, "i": true, "if": true, "in": true, "is": true, "it": true, "its": true, "me": true, "my": true,
	"of": true, "on": true, "or": true, "that": true, "the": true, "there": true, "this": true, "to": true, "want": true, "what": true, "which": true, "with": true,
}

// filler are words that people put into a request, and that don't say what they want. A query of nothing else has them.
var filler = map[string]bool{
	"about": true, "am": true, "been": true, "but": true, "could": true, "did": true, "does": true, "each": true, "had": true, "has": true, "have": true, "here": true,
	"just": true, "let": true, "more": true, "no": true, "not": true, "now": true, "one": true, "our": true, "please": true, "should": true, "so": true, "some": true,
	"something": true, "than": true, "them": true, "then": true, "these": true, "they": true, "thing": true, "things": true, "those": true, "us": true, "was": true,
	"we": true, "were": true, "when": true, "where": true, "will": true, "would": true, "you": true, "your": true,
}

// Common reports whether a word, in small letters, occurs in texts about everything.
func Common(word string) bool { return common[word] }

// Words returns the words of a text in the form in which they are compared. A query of nothing
// but common words has those.
func Words(text string) []string {
	words, _ := wordsOf(text)
	return words
}

// wordsOf returns the words of a text as they are compared, and as they were written.
func wordsOf(text string) (words, shown []string) {
	all := split(text)
	words = make([]string, 0, len(all))
	for _, w := range all {
		if lower := strings.ToLower(w); !common[lower] {
			words, shown = append(words, stem(lower)), append(shown, w)
		}
	}
	if len(words) > 0 {
		return words, shown
	}
	for _, w := range all {
		words = append(words, strings.ToLower(w))
	}
	return words, words
}

// split divides a text at characters that are neither letters nor digits, and before the capital letters of a
// name in PascalCase: VFSRead is VFS and Read. Several of what has a short name are one word: APIs.
func split(text string) (words []string) {
	start, before := -1, ' ' // start of the word, and the character before
	for i, r := range text {
		inside := unicode.IsLetter(r) || unicode.IsDigit(r)
		if start >= 0 && i-start > 1 && unicode.IsUpper(before) && lastS(text[i:]) {
			inside = false
		}
		if start >= 0 && (!inside || unicode.IsUpper(r) && (!unicode.IsUpper(before) || smallFollows(text[i:]) && !lastS(text[i+utf8.RuneLen(r):]))) {
			words, start = append(words, text[start:i]), -1
		}
		if inside && start < 0 {
			start = i
		}
		before = r
	}
	if start >= 0 {
		words = append(words, text[start:])
	}
	return words
}

// lastS reports whether a text begins with an s that ends a word, such as the one of AIs.
func lastS(text string) bool {
	after, ok := strings.CutPrefix(text, "s")
	r, _ := utf8.DecodeRuneInString(after)
	return ok && !unicode.IsLetter(r) && !unicode.IsDigit(r)
}

// smallFollows reports whether the second character of a text is a small letter.
func smallFollows(text string) bool {
	_, n := utf8.DecodeRuneInString(text)
	r, _ := utf8.DecodeRuneInString(text[n:])
	return unicode.IsLower(r)
}

// stem takes the usual endings off an English word: searches, searching and searched are search.
func stem(w string) string {
	const shortest = 3 // letters that must be left
	for _, ending := range []string{"ing", "ies", "ed", "es", "s", "e", "y"} {
		rest, ok := strings.CutSuffix(w, ending)
		if ok && len(rest) >= shortest && !(ending == "s" && strings.HasSuffix(rest, "s")) {
			return strings.TrimSuffix(rest, "e")
		}
	}
	return w
}

// Forms returns other words that a word of a query stands for: those with the same stem. Short and common words, and what
// isn't written in Latin letters alone, stand for themselves.
func Forms(word string) (forms []string) {
	const shortest = 4
	if len(word) < shortest || common[word] || strings.ContainsFunc(word, func(r rune) bool { return r < 'a' || r > 'z' }) {
		return nil
	}
	s := stem(word)
	for _, ending := range []string{"", "e", "s", "es", "ed", "ing", "y", "ies"} {
		if form := s + ending; form != word && stem(form) == s {
			forms = append(forms, form)
		}
	}
	return forms
}
