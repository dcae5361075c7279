package llama

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Token is the number of a piece of text in the vocabulary.
type Token int32

// tokenizer is byte-level BPE with the splitting of GPT-2.
type tokenizer struct {
	texts    []string // the bytes of each token
	ids      map[string]Token
	ranks    map[[2]Token]merge
	single   [256]Token
	literals []Token // whole tokens wherever their text occurs, such as <tool_call>
	control  map[string]Token
}

// merge is the token that two neighbours become, and how early they do.
type merge struct {
	rank int
	to   Token
}

// The types of tokens that a file names.
const (
	typeControl     = 3
	typeUserDefined = 4
)

func newTokenizer(f *file) (*tokenizer, error) {
	if f.settings["tokenizer.ggml.model"] != "gpt2" {
		return nil, fmt.Errorf("the tokenizer %v isn't known; gpt2 is", f.settings["tokenizer.ggml.model"])
	}
	written, err := list[string](f, "tokenizer.ggml.tokens")
	if err != nil {
		return nil, err
	}
	types, err := list[int32](f, "tokenizer.ggml.token_type")
	if err != nil {
		return nil, err
	}
	merges, err := list[string](f, "tokenizer.ggml.merges")
	if err != nil {
		return nil, err
	}
	if len(types) != len(written) {
		return nil, fmt.Errorf("%d tokens have %d types", len(written), len(types))
	}
	t := &tokenizer{texts: make([]string, len(written)), ids: make(map[string]Token, len(written)),
		ranks: make(map[[2]Token]merge, len(merges)), control: make(map[string]Token)}
	bytes := byteOfRune()
	for i, text := range written {
		switch types[i] {
		case typeControl:
			t.control[text] = Token(i)
		case typeUserDefined:
			t.texts[i] = text
			t.literals = append(t.literals, Token(i))
		default:
			var raw strings.Builder
			for _, r := range text {
				b, ok := bytes[r]
				if !ok {
					return nil, fmt.Errorf("token %d, %q, has a character that stands for no byte", i, text)
				}
				raw.WriteByte(b)
			}
			t.texts[i] = raw.String()
			t.ids[raw.String()] = Token(i)
		}
	}
	for b := range 256 {
		id, ok := t.ids[string([]byte{byte(b)})]
		if !ok {
			return nil, fmt.Errorf("the vocabulary lacks the byte %#x", b)
		}
		t.single[b] = id
	}
	for rank, m := range merges {
		if err := t.learn(rank, m, bytes); err != nil {
			return nil, err
		}
	}
	return t, nil
}

func (t *tokenizer) learn(rank int, written string, bytes map[rune]byte) error {
	left, right, ok := strings.Cut(written, " ")
	var raw [2]string
	for i, side := range []string{left, right} {
		for _, r := range side {
			raw[i] += string([]byte{bytes[r]})
		}
	}
	a, okA := t.ids[raw[0]]
	b, okB := t.ids[raw[1]]
	to, okTo := t.ids[raw[0]+raw[1]]
	if !ok || !okA || !okB || !okTo {
		return fmt.Errorf("the merge %q has a part that isn't a token", written)
	}
	t.ranks[[2]Token{a, b}] = merge{rank: rank, to: to}
	return nil
}

// byteOfRune returns GPT-2's way to write a byte as a visible character.
func byteOfRune() map[rune]byte {
	all := make(map[rune]byte, 256)
	next := rune(256)
	for b := range 256 {
		if visible := b >= '!' && b <= '~' || b >= 0xA1 && b <= 0xAC || b >= 0xAE; visible {
			all[rune(b)] = byte(b)
		} else {
			all[next] = byte(b)
			next++
		}
	}
	return all
}

// append appends the tokens of text. No text becomes a control token.
func (t *tokenizer) append(to []Token, text string) []Token {
	for text != "" {
		at, literal := len(text), Token(-1)
		for _, id := range t.literals {
			if i := strings.Index(text, t.texts[id]); i >= 0 && i < at {
				at, literal = i, id
			}
		}
		for rest := text[:at]; rest != ""; {
			n := pieceLength(rest)
			to = t.appendPiece(to, rest[:n])
			rest = rest[n:]
		}
		text = text[at:]
		if literal >= 0 {
			to = append(to, literal)
			text = text[len(t.texts[literal]):]
		}
	}
	return to
}

// appendPiece joins the bytes of a piece, the merge that was learned first at each step.
func (t *tokenizer) appendPiece(to []Token, piece string) []Token {
	start := len(to)
	for i := range len(piece) {
		to = append(to, t.single[piece[i]])
	}
	for {
		all := to[start:]
		best, at := merge{}, -1
		for i := range len(all) - 1 {
			if m, ok := t.ranks[[2]Token{all[i], all[i+1]}]; ok && (at < 0 || m.rank < best.rank) {
				best, at = m, i
			}
		}
		if at < 0 {
			return to
		}
		all[at] = best.to
		copy(all[at+1:], all[at+2:])
		to = to[:len(to)-1]
	}
}

// pieceLength returns the length of the first piece of text by the splitting of GPT-2:
//
//	's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
func pieceLength(text string) int {
	for _, ending := range []string{"'s", "'t", "'re", "'ve", "'m", "'ll", "'d"} {
		if strings.HasPrefix(text, ending) {
			return len(ending)
		}
	}
	space := 0
	if text[0] == ' ' {
		space = 1
	}
	first, _ := utf8.DecodeRuneInString(text[space:])
	if space < len(text) && !unicode.IsSpace(first) {
		class := classOf(first)
		return space + runLength(text[space:], func(r rune) bool { return !unicode.IsSpace(r) && classOf(r) == class })
	}
	n := runLength(text, unicode.IsSpace)
	if n < len(text) {
		// White space before a word leaves its last character to the word, or to itself.
		_, last := utf8.DecodeLastRuneInString(text[:n])
		if n > last {
			return n - last
		}
	}
	return n
}

func classOf(r rune) int {
	switch {
	case unicode.IsLetter(r):
		return 1
	case unicode.IsNumber(r):
		return 2
	}
	return 0
}

// runLength returns how many bytes of text, from its start, are characters that belong.
func runLength(text string, belongs func(rune) bool) int {
	for i, r := range text {
		if !belongs(r) {
			return i
		}
	}
	return len(text)
}
