package encoder

import (
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// unknown is the token of characters that no piece begins with.
const unknown = 0

// A tokenizer splits texts into the pieces of the vocabulary whose scores have the highest sum.
// It follows the reference to the letter, also where that isn't the best split: a position that no
// piece ends at has the score 0.
type tokenizer struct {
	ids     map[string]int
	scores  []float64
	runes   []int // how long each piece is
	longest int   // piece, in runes
}

// firstPiece is the first token that stands for text. Those before it are marks.
const firstPiece = 6

func newTokenizer(pieces []string, scores []float64) tokenizer {
	t := tokenizer{ids: make(map[string]int, len(pieces)), scores: scores, runes: make([]int, len(pieces))}
	for id, p := range pieces {
		t.runes[id] = utf8.RuneCountInString(p)
		if id >= firstPiece {
			t.ids[p] = id
			t.longest = max(t.longest, t.runes[id])
		}
	}
	return t
}

func (t *tokenizer) split(text string) []int {
	text = norm.NFKC.String(text)
	if text == "" {
		return nil
	}
	symbols := []rune{'▁'}
	for _, r := range text {
		if len(symbols) > longest*t.longest {
			break // the encoder doesn't read tokens from here on
		}
		if r == ' ' {
			r = '▁'
		}
		symbols = append(symbols, r)
	}
	// best is the score of the best split that ends at a position, last the piece that ends it.
	best, last := make([]float64, len(symbols)+1), make([]int, len(symbols)+1)
	ends := make([]int, len(symbols)+1) // where each symbol ends in the text
	joined := string(symbols)
	for i, r := range symbols {
		ends[i+1] = ends[i] + utf8.RuneLen(r)
	}
	for end := 1; end <= len(symbols); end++ {
		for start := max(0, end-t.longest); start < end; start++ {
			id, ok := t.ids[joined[ends[start]:ends[end]]]
			if !ok && (end-start > 1 || t.begins(joined[ends[start]:])) {
				continue
			}
			score := best[start]
			if ok {
				score += t.scores[id]
			} else {
				id = unknown
			}
			if best[end] == 0 || score >= best[end] {
				best[end], last[end] = score, id
			}
		}
	}
	var tokens []int
	for end := len(symbols); end > 0; end -= t.runes[last[end]] {
		if n := len(tokens); last[end] != unknown || n == 0 || tokens[n-1] != unknown {
			tokens = append(tokens, last[end])
		}
	}
	for i, j := 0, len(tokens)-1; i < j; i, j = i+1, j-1 {
		tokens[i], tokens[j] = tokens[j], tokens[i]
	}
	return tokens
}

// begins reports whether a piece is a prefix of the text.
func (t *tokenizer) begins(text string) bool {
	runes := 0
	for i, r := range text {
		if runes++; runes > t.longest {
			break
		}
		if _, ok := t.ids[text[:i+utf8.RuneLen(r)]]; ok {
			return true
		}
	}
	return false
}
