package kernel

import (
	"encoding/json"
	"math"
	"strings"

	"kernos/internal/jsonvalue"
	"kernos/internal/ranked"
)

// index finds the syscalls of a catalog by words. It is built when it is first asked.
type index struct {
	syscalls []*Syscall
	methods  []string // their names in RPC
	words    *ranked.Index
}

// What a word counts, by where it stands.
const (
	inName        = 4
	inSummary     = 2
	inField       = 1
	inDescription = 0.3
)

func newIndex(v View) *index {
	x := new(index)
	var documents []ranked.Document
	for s := range v.Syscalls() {
		d := ranked.Document{{Text: string(s.Type), Weight: inName}, {Text: s.Summary, Weight: inSummary}}
		for _, alias := range s.Aliases {
			d = append(d, ranked.Text{Text: string(alias), Weight: inSummary})
		}
		d = appendFields(d, s.Input.JSON())
		d = appendFields(d, s.Output.JSON())
		x.syscalls, x.methods, documents = append(x.syscalls, s), append(x.methods, methodName(s.Type)), append(documents, d)
	}
	x.words = ranked.New(documents)
	return x
}

// appendFields adds the names and the descriptions of the members that a schema declares.
func appendFields(d ranked.Document, text json.RawMessage) ranked.Document {
	for _, p := range jsonvalue.Members(jsonvalue.Members(text).Get("properties")) {
		d = append(d, ranked.Text{Text: p.Name, Weight: inField})
		if description, ok := jsonvalue.String(jsonvalue.Members(p.Value).Get("description")); ok {
			d = append(d, ranked.Text{Text: description, Weight: inDescription})
		}
	}
	return d
}

// A Hit is a syscall that [View.Search] has found, and how well it fits.
type Hit struct {
	Syscall *Syscall
	Score   float64
}

// Search finds syscalls by words of their names, summaries and fields, the best first and at
// most limit of them. The name of a syscall, in any case, finds that one first.
func (v View) Search(query string, limit int) []Hit {
	x := v.catalog.index()
	hits, name := []Hit{}, strings.TrimSpace(query)
	named := func(i int) bool {
		return strings.EqualFold(string(x.syscalls[i].Type), name) || strings.EqualFold(x.methods[i], name)
	}
	for i, s := range x.syscalls {
		if named(i) {
			hits = append(hits, Hit{s, 100})
		}
	}
	for _, h := range x.words.Search(query, limit) {
		if !named(h.Document) {
			hits = append(hits, Hit{x.syscalls[h.Document], math.Round(h.Score*100) / 100})
		}
	}
	return hits[:min(limit, len(hits))]
}
