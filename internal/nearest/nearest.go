// Package nearest finds the names that a caller may have meant by a name that
// does not exist.
package nearest

import (
	"cmp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/agnivade/levenshtein"
)

// Best returns the candidate that is nearest to name, or "" if none is right in at least
// half of its letters. It guesses where Names would not: for a caller that shows it
// as a guess.
func Best(name string, candidates []string) string {
	best, least := "", 0
	lower := strings.ToLower(name)
	for _, c := range candidates {
		d := levenshtein.ComputeDistance(lower, strings.ToLower(c))
		if 2*d <= max(len(name), len(c)) && (best == "" || d < least || d == least && c < best) {
			best, least = c, d
		}
	}
	return best
}

// Names returns up to three of the candidates that are near to name, nearest first. Letter case
// and punctuation don't count: vfs_resolve is VFS.Resolve, and then no other name is returned. A
// name that is wrong in more than a third of its letters is not near, nor is one that is wrong
// in more letters than the nearest. A short name may have one wrong letter, or two that are swapped.
// Each name is returned once.
func Names(name string, candidates []string) []string {
	const most = 3
	type candidate struct {
		name     string
		distance int
	}
	var near []candidate
	folded := fold(name)
	limit := max(1, len(folded)/3)
	letters := count(folded)
	for _, c := range candidates {
		other := fold(c)
		if d := len(other) - len(folded); d > limit || d < -limit {
			continue
		}
		if letters.differ(other) > max(limit, 2) {
			continue // most candidates end here: the distance costs twenty times as much
		}
		d := levenshtein.ComputeDistance(folded, other)
		if (d <= limit || d == 2 && swapped(folded, other)) && d < max(len(folded), len(other)) {
			near = append(near, candidate{c, d})
		}
	}
	slices.SortFunc(near, func(a, b candidate) int { return cmp.Or(a.distance-b.distance, strings.Compare(a.name, b.name)) })
	near = slices.Compact(near)
	names := []string{}
	for _, c := range near[:min(most, len(near))] {
		if c.distance > near[0].distance {
			break
		}
		names = append(names, c.name)
	}
	return names
}

// letters has how often each letter is in a name. Some letters share a count.
type letters [64]int16

func count(name string) (l letters) {
	for _, r := range name {
		l[r%rune(len(l))]++
	}
	return l
}

// differ returns a number of letters that are wrong at least if a name was meant by another one: those that the one has and the
// other has not, in any order.
func (l letters) differ(other string) int {
	for _, r := range other {
		l[r%rune(len(l))]--
	}
	missing, extra := 0, 0
	for _, n := range l {
		missing += int(max(n, 0))
		extra -= int(min(n, 0))
	}
	return max(missing, extra)
}

// swapped reports whether two names have the same letters.
func swapped(a, b string) bool {
	letters := func(name string) []rune { return slices.Sorted(slices.Values([]rune(name))) }
	return slices.Equal(letters(a), letters(b))
}

// Lists reports whether a list of words, separated by commas, has a word. Letter case and punctuation don't count.
func Lists(words, word string) bool {
	word = fold(word)
	for one := range strings.SplitSeq(words, ",") {
		if word != "" && fold(strings.TrimSpace(one)) == word && !strings.Contains(strings.TrimSpace(one), " ") {
			return true
		}
	}
	return false
}

// fold returns the letters and digits of a name, in lower case.
func fold(name string) string {
	if strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789") == "" {
		return name
	}
	return strings.Map(func(r rune) rune {
		if r < utf8.RuneSelf && !unicode.IsLetter(r) && !unicode.IsDigit(r) {
			return -1
		}
		return unicode.ToLower(r)
	}, name)
}

// Hint asks about the names that are near to name: "did you mean Memory.Get?", or
// "" if there are none.
func Hint(name string, candidates []string) string { return Ask(Names(name, candidates)) }

// Ask asks which of some names was meant: "did you mean a, b or c?", or "" without a name.
func Ask[S ~string](names []S) string {
	if len(names) == 0 {
		return ""
	}
	text := "did you mean " + string(names[0])
	for i, name := range names[1:] {
		if i < len(names)-2 {
			text += ", " + string(name)
		} else {
			text += " or " + string(name)
		}
	}
	return text + "?"
}
