package kernel

import (
	"context"
	"slices"
	"strings"

	"kernos/internal/jsonvalue"
	"kernos/internal/ranked"
)

// index finds the syscalls of a catalog by words. It is built when it is first asked.
type index struct {
	syscalls []*Syscall
	methods  []string // the RPC names of the syscalls
	words    *ranked.Index
}

// What a word counts, by where it stands.
const (
	inName        = 4
	inSummary     = 2
	inField       = 0.5
	inDescription = 0.1
)

func newIndex(v View) *index {
	x := new(index)
	var documents []ranked.Document
	for s := range v.Syscalls() {
		texts := []ranked.Text{
			{Text: string(s.Type), Weight: inName}, {Text: s.Title, Weight: inSummary}, {Text: s.Summary, Weight: inSummary}, {Text: s.Words, Weight: inSummary},
		}
		for _, alias := range s.Aliases {
			texts = append(texts, ranked.Text{Text: string(alias), Weight: inSummary})
		}
		for _, p := range slices.Concat(properties(s.Input), properties(s.Output)) {
			texts = append(texts, ranked.Text{Text: p.Name, Weight: inField, Aside: true})
			if description, ok := jsonvalue.String(jsonvalue.Members(p.Value).Get("description")); ok {
				texts = append(texts, ranked.Text{Text: description, Weight: inDescription, Aside: true})
			}
		}
		d := ranked.Document{Texts: texts, About: string(s.Type) + ": " + s.Summary, Also: append(strings.Split(s.Words, ", "), s.Title)}
		x.syscalls, x.methods, documents = append(x.syscalls, s), append(x.methods, MethodName(s.Type)), append(documents, d)
	}
	x.words = ranked.New(documents)
	return x
}

// A Hit is a syscall that [View.Search] has found, how well it fits, and why.
type Hit struct {
	Syscall *Syscall
	Score   float64
	ranked.Why
}

// Search finds syscalls by words of their names, summaries and fields, and by what their summaries
// mean, the best first and at most as many as the query's limit. The name of a syscall, in any
// case, finds that one first.
func (v View) Search(ctx context.Context, m *ranked.Meaning, q ranked.Query) ([]Hit, error) {
	x := v.catalog.index()
	hits, name := []Hit{}, strings.TrimSpace(q.Text)
	named := func(i int) bool {
		return strings.EqualFold(string(x.syscalls[i].Type), name) || strings.EqualFold(x.methods[i], name)
	}
	for i, s := range x.syscalls {
		if named(i) {
			hits = append(hits, Hit{s, 100, ranked.Why{Words: []string{name}}})
		}
	}
	found, err := x.words.Search(ctx, m, q)
	if err != nil {
		return nil, err
	}
	for _, h := range found.Hits {
		if !named(h.Document) {
			hits = append(hits, Hit{x.syscalls[h.Document], ranked.Rounded(h.Score), h.Why})
		}
	}
	return hits[:min(q.Limit, len(hits))], nil
}
