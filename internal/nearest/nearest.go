// Package nearest finds the names that a caller may have meant by a name that
// does not exist.
package nearest

import (
	"cmp"
	"slices"
	"strings"

	"github.com/agnivade/levenshtein"
)

// Best returns the candidate that is nearest to name, or "" if none is right in at least
// half of its letters. It guesses where Names would not: for a caller who is told that it
// is a guess.
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

// Names returns up to three of the candidates that are near to name, nearest first.
// Upper and lower case count as near; a name that is wrong in more than a third of
// its letters is not.
func Names(name string, candidates []string) []string {
	const most = 3
	distances := make(map[string]int)
	var names []string
	lower := strings.ToLower(name)
	limit := max(2, len(name)/3)
	for _, c := range candidates {
		if d := len(c) - len(name); d > limit || d < -limit {
			continue
		}
		if d := levenshtein.ComputeDistance(lower, strings.ToLower(c)); d <= limit && d < max(len(name), len(c)) {
			names, distances[c] = append(names, c), d
		}
	}
	slices.SortFunc(names, func(a, b string) int { return cmp.Or(distances[a]-distances[b], strings.Compare(a, b)) })
	return names[:min(most, len(names))]
}

// Hint asks about the names that are near to name: "did you mean Memory.Get?", or
// "" if there are none.
func Hint(name string, candidates []string) string {
	names := Names(name, candidates)
	if len(names) == 0 {
		return ""
	}
	return "did you mean " + strings.Join(names, " or ") + "?"
}
