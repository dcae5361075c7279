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
		x.syscalls, documents = append(x.syscalls, s), append(documents, d)
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
	hits := []Hit{}
	for _, s := range x.syscalls {
		if namedAs(s, query) {
			hits = append(hits, Hit{s, 100})
		}
	}
	for _, h := range x.words.Search(query, limit) {
		if s := x.syscalls[h.Document]; !namedAs(s, query) {
			hits = append(hits, Hit{s, math.Round(h.Score*100) / 100})
		}
	}
	return hits[:min(limit, len(hits))]
}

func namedAs(s *Syscall, query string) bool {
	query = strings.TrimSpace(query)
	return strings.EqualFold(string(s.Type), query) || strings.EqualFold(methodName(s.Type), query)
}
