package main

import (
	_ "embed"
	"math/rand/v2"
	"strings"
)

//go:embed operators.txt
var operators string

// A concept is what programs call something, and what people do.
type concept struct{ recorded, asked []string }

// readOperators returns the two lists of operators.txt.
func readOperators() (things, happenings []concept) {
	list := &things
	for line := range strings.Lines(operators) {
		line = strings.TrimSpace(line)
		switch recorded, asked, ok := strings.Cut(line, " | "); {
		case line == "== happenings":
			list = &happenings
		case ok && line[0] != '#':
			*list = append(*list, concept{strings.Split(recorded, "; "), strings.Split(asked, "; ")})
		}
	}
	return things, happenings
}

// some returns up to most of a list, in any order.
func some(r *rand.Rand, list []string, most int) string {
	var out []string
	for _, i := range r.Perm(len(list))[:min(len(list), 1+r.IntN(most))] {
		out = append(out, list[i])
	}
	return strings.Join(out, " ")
}

// askedPairs makes questions and messages of concepts: things with happenings, in the words of people and in those of programs.
func askedPairs(r *rand.Rand, rounds int) (pairs []pair) {
	things, happenings := readOperators()
	for range rounds {
		for _, t := range things {
			for range 40 {
				h := happenings[r.IntN(len(happenings))]
				pairs = append(pairs, pair{"asked", some(r, t.asked, 2) + " " + some(r, h.asked, 2), some(r, t.recorded, 3) + " " + some(r, h.recorded, 2)})
			}
		}
	}
	for _, list := range [][]concept{things, happenings} {
		for _, c := range list {
			for range 20 * rounds {
				pairs = append(pairs, pair{"asked", some(r, c.asked, 2), some(r, c.recorded, 2)})
			}
		}
	}
	return pairs
}
