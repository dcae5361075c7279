package journal

import (
	"bytes"
	"encoding/binary"
	"math"
	"slices"

	"kernos/internal/ranked"
	"kernos/journal/words"
	"kernos/message"
	"kernos/store"
)

// telling returns the words of a query without those that put it as a request, and those that occur in texts about everything, if there
// are others.
func telling(asked [][]byte) [][]byte {
	var left [][]byte
	for i, w := range asked {
		if !ranked.Common(string(w)) && !asks(asked[i:]) {
			left = append(left, w)
		}
	}
	if left == nil {
		return asked
	}
	return left
}

// asks reports whether a word puts a request: show me, related to.
func asks(words [][]byte) bool {
	if len(words) < 2 {
		return false
	}
	switch string(words[0]) {
	case "show", "find", "give", "tell", "get", "list":
		return string(words[1]) == "me"
	case "related", "relating":
		return string(words[1]) == "to"
	}
	return false
}

// hasWords is which words of the query a message has, with a bit for each: [words.OfQuery] returns at most 32.
type hasWords uint32

// shown returns the words that a message has.
func (x *search) shown(has hasWords) (words []string) {
	for i, w := range x.words {
		if has&(1<<i) != 0 {
			words = append(words, string(w))
		}
	}
	return words
}

// exact reports whether a message has all words, or all that are names, codes and ids.
func (x *search) exact(has hasWords) bool {
	return has == x.all() || x.names != 0 && has&x.names == x.names
}

func (x *search) all() hasWords { return hasWords(1)<<len(x.words) - 1 }

// cover returns how much of the query the words of a message are.
func (x *search) cover(has hasWords) (cover float64) {
	total := 0.0
	for i, idf := range x.idf {
		total += idf
		if has&(1<<i) != 0 {
			cover += idf
		}
	}
	return cover / max(total, math.SmallestNonzeroFloat64)
}

// namesAmong returns which of the words that were asked for are parts of names, codes and ids of the query.
func namesAmong(asked [][]byte, query string) (names hasWords) {
	for _, name := range ranked.Names(query) {
		for _, part := range words.OfQuery(name) {
			if i := slices.IndexFunc(asked, func(w []byte) bool { return bytes.Equal(w, part) }); i >= 0 {
				names |= 1 << i
			}
		}
	}
	return names
}

// errorWords are the words for a message that is an error, which the error itself need not have.
var errorWords = map[string]bool{"error": true, "errors": true, "fail": true, "failed": true, "fails": true, "failing": true, "failure": true, "failures": true}

// findErrors finds out which messages are errors if the query has a word for them and others.
func (x *search) findErrors() (err error) {
	x.error = slices.IndexFunc(x.words, func(w []byte) bool { return errorWords[string(w)] })
	if x.error < 0 || len(x.words) == 1 || x.names&(1<<x.error) != 0 {
		return nil
	}
	only := Filter{Kinds: []message.Kind{message.KindError}}
	x.errors, err = x.j.classes.view(x.ctx, x.s, x.j.oldest(), x.horizon.Seq, only.matcher())
	return err
}

// asForm is what another form of a word counts: sealed, for one who looks for sealing.
const asForm = 0.6

// forms returns a word of the query, and the other forms that it stands for. A part of a name, a code or an id is meant as it
// stands.
func (x *search) forms(i int) [][]byte {
	forms := [][]byte{x.words[i]}
	if x.names&(1<<i) == 0 {
		for _, form := range ranked.Forms(string(x.words[i])) {
			forms = append(forms, []byte(form))
		}
	}
	return forms
}

// count returns how many messages have a word.
func (x *search) count(word []byte, growing uint64) (count uint64, err error) {
	for e, err := range x.s.Scan(store.Range{From: wordKey(nil, word, 0), To: wordKey(nil, word, x.horizon.Seq+1)}) {
		if err != nil {
			return 0, err
		}
		n, _ := binary.Uvarint(e.Value)
		if first := keySeq(e.Key); first == growing {
			n = countUntil(e.Value, x.horizon.Seq+1-first)
		}
		count += n
	}
	return count, nil
}

// growing returns the first message of the span that extends beyond the horizon, or 0.
func (x *search) growing() (uint64, error) {
	e, err := store.First(x.s, store.Range{From: seqKey(spaceSpans, 0), To: seqKey(spaceSpans, x.horizon.Seq+1), Reverse: true})
	if err != nil || e.Revision == 0 {
		return 0, err
	}
	sp, err := readSpan(e)
	if err != nil || sp.last <= x.horizon.Seq {
		return 0, err
	}
	return sp.first, nil
}

// countUntil counts the postings of the first messages of a span.
func countUntil(list []byte, messages uint64) (count uint64) {
	number := func() (uint64, bool) {
		v, n := binary.Uvarint(list)
		list = list[max(n, 0):]
		return v, n > 0
	}
	_, ok := number()
	for at := uint64(0); ok; count++ {
		step, there := number()
		if at += step; !there || at > messages {
			break
		}
		_, _ = number()  // how often
		_, ok = number() // among how many words
	}
	return count
}
