package ranked

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"unicode"
)

// A Mode is what a search goes by. "" and "both" mean words and meaning.
type Mode string

// The modes that go by one of them.
const (
	ByWords   Mode = "words"
	ByMeaning Mode = "meaning"
)

// Words reports whether a search goes by words.
func (m Mode) Words() bool { return m != ByMeaning }

// Meaning reports whether a search goes by meaning.
func (m Mode) Meaning() bool { return m != ByWords }

// Why is the reason why a search found a text: words of the query, nearness of meaning, or both.
type Why struct {
	Words []string `json:"words,omitempty" jsonschema_description:"The words of the query that it has."`
	Near  float64  `json:"near,omitzero" jsonschema_description:"How near its meaning is to that of the query; 1 is the same."`
}

// Depth is how many of the best by words and by meaning are joined. What follows is in the order of
// its words.
const Depth = 200

// offset is how little the first ranks differ in reciprocal rank fusion.
const offset = 60

// Worded is something that has words of a query, in a list with the best first.
type Worded[K comparable] struct {
	Key K

	// Cover is how much of the query its words are, from 0 to 1.
	Cover float64

	// Exact means that it has all words of the query, or all that are names, codes and ids
	// ([Names]). What is exact comes first in the list.
	Exact bool
}

// Fused is one place in a joined list.
type Fused struct {
	Words, Near int // index in each of the two lists, or -1
	Score       float64
}

// Fuse joins what was found by words and what was found by meaning, each with the best first, by
// reciprocal rank fusion. A rank by words counts as the square of what the words cover of the query: a
// text that shares a word or two with a question is seldom the answer. What is exact stays
// on top in the order of its words, so that a search for a name finds what a search by words alone
// finds. A longer list of words has the same places first: lists can be paged through.
func Fuse[K comparable](words []Worded[K], near []K) []Fused {
	nearness := make(map[K]int, len(near))
	for i, k := range near {
		nearness[k] = i
	}
	at := func(k K) int {
		if i, ok := nearness[k]; ok {
			return i
		}
		return -1
	}
	places := make([]Fused, 0, len(words)+len(near))
	exact := 0
	for ; exact < len(words) && words[exact].Exact; exact++ {
		i := at(words[exact].Key)
		places = append(places, Fused{exact, i, 1 + 1/float64(1+exact)})
		if i >= 0 {
			delete(nearness, words[exact].Key)
		}
	}
	reciprocal := func(rank int) float64 { return (offset + 1) / float64(2*(offset+1+rank)) }
	weight := func(w Worded[K]) float64 { return w.Cover * w.Cover }
	joined := min(len(words), max(exact, Depth))
	byWords := make(map[int]int, len(nearness)) // index in words by index in nearness
	for i, w := range words[exact:joined] {
		rank := exact + i
		p := Fused{rank, at(w.Key), weight(w) * reciprocal(rank)}
		if p.Near >= 0 {
			byWords[p.Near] = rank
			continue
		}
		places = append(places, p)
	}
	for _, i := range nearness {
		p := Fused{-1, i, reciprocal(i)}
		if rank, ok := byWords[i]; ok {
			p.Words, p.Score = rank, p.Score+weight(words[rank])*reciprocal(rank)
		}
		places = append(places, p)
	}
	slices.SortFunc(places[exact:], func(a, b Fused) int {
		return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(uint(a.Near), uint(b.Near)), cmp.Compare(uint(a.Words), uint(b.Words)))
	})
	last := 1.0
	if len(places) > 0 {
		last = places[len(places)-1].Score
	}
	for rank := joined; rank < len(words); rank++ {
		if at(words[rank].Key) < 0 {
			places = append(places, Fused{rank, -1, last * float64(joined) / float64(rank+1)})
		}
	}
	return places
}

// Rounded returns a score or a nearness as it is shown.
func Rounded(score float64) float64 { return math.Round(score*1e4) / 1e4 }

// Names returns the parts of a query, between white space, that are written as names, codes and
// ids are: Crypto.Seal, connection_refused, maxRetries, ECONNREFUSED, 404, notes/1. They are meant
// as they stand.
func Names(query string) (names []string) {
	for field := range strings.FieldsSeq(query) {
		field = strings.TrimFunc(field, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
		if isName(field) {
			names = append(names, field)
		}
	}
	return names
}

func isName(field string) bool {
	var capitals, small, digits, inner, joints int
	for i, r := range field {
		switch {
		case unicode.IsDigit(r):
			digits++
		case unicode.IsUpper(r):
			capitals++
			if i > 0 {
				inner++
			}
		case unicode.IsLetter(r):
			small++
		case strings.ContainsRune("._:/@#", r):
			joints++
		}
	}
	return digits > 0 && len(field) >= 3 || joints > 0 || inner > 0 && small > 0 || small == 0 && capitals >= 5
}
