package main

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"unicode"

	"kernos/internal/embed"
)

// A vocabulary is the words that the table has: the most frequent ones of the corpus, and pieces
// that other words end with.
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
	written := map[string]int{}
	for _, text := range c.all {
		split(text, func(w string) { written[w]++ })
	}
	for _, counts := range []map[string]int{written, c.spoken} {
		total := 0
		for _, n := range counts {
			total += n
		}
		for w, n := range counts {
			v.share[w] += float64(n) / float64(total) / 2
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

// write writes the table: see embed.Table.
func write(name string, v *vocabulary, t *trainer) error {
	var b bytes.Buffer
	b.WriteString("kernos embeddings 1\n")
	list := strings.Join(v.words, "\n") + "\n"
	for _, n := range []int{t.dimensions, len(v.words), len(list)} {
		b.Write(binary.LittleEndian.AppendUint32(nil, uint32(n)))
	}
	b.WriteString(list)
	var rows []byte
	for _, vector := range t.vectors {
		var largest float32 = 1e-9
		for _, x := range vector {
			largest = max(largest, float32(math.Abs(float64(x))))
		}
		scale := largest / 127
		b.Write(binary.LittleEndian.AppendUint32(nil, math.Float32bits(scale)))
		for _, x := range vector {
			rows = append(rows, byte(int8(math.Round(float64(x/scale)))))
		}
	}
	b.Write(rows)
	return os.WriteFile(name, b.Bytes(), 0o644)
}
