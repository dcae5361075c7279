package journal

import (
	"bytes"
	"cmp"
	"math"
	"slices"
	"strings"

	"kernos/kernel/principal"
	"kernos/message"
)

// matcher is a filter in the form that records are compared with.
type matcher struct {
	id, correlation, causation []byte
	whole                      bool           // the whole workflow is wanted
	kinds                      []message.Kind // nil for all, as the lists below
	types                      []pattern
	codes                      []int
	principals                 []string     // ids or names
	own                        principal.ID // the only principal whose messages are seen, or ""
	since, until               int64
	words                      [][]byte // lower-case texts that must all be there

	data wantedData
}

func (f *Filter) matcher() matcher {
	m := matcher{id: []byte(f.ID), correlation: []byte(f.Correlation), whole: f.Whole, causation: []byte(f.Causation), kinds: f.Kinds, codes: f.Codes, principals: f.Principals, own: f.Own,
		since: f.Since, until: f.Until, types: patterns(f.Type)}
	if m.until <= 0 {
		m.until = math.MaxInt64
	}
	for _, w := range f.Words {
		m.words = append(m.words, bytes.ToLower([]byte(w)))
	}
	return m
}

// hasWords reports whether a record that has its data has the wanted words.
func (m *matcher) hasWords(r *record) bool {
	for _, w := range m.words {
		if !bytes.Contains(bytes.ToLower(r.data), w) && !bytes.Contains(bytes.ToLower(r.typ), w) && !bytes.Contains(bytes.ToLower(r.id), w) {
			return false
		}
	}
	return true
}

func (m *matcher) matches(r *record) bool {
	switch {
	case r.at < m.since || r.at >= m.until,
		len(m.id) > 0 && !bytes.Equal(r.id, m.id),
		len(m.kinds) > 0 && !slices.Contains(m.kinds, r.kind()),
		!m.wantsType(r.typ),
		len(m.causation) > 0 && !bytes.Equal(r.causation, m.causation),
		len(m.correlation) > 0 && !m.within(r),
		len(m.codes) > 0 && !slices.Contains(m.codes, r.code),
		m.own != "" && r.principalID() != m.own,
		len(m.principals) > 0 && !m.wantsPrincipal(r):
		return false
	}
	return true
}

// parts returns the names that the name of a principal is made of, if there are several: the caller's,
// and the name of the program, or of the author of the code, that acts for it.
func parts(name []byte) []string {
	if bytes.IndexByte(name, principal.PartsSeparator[0]) < 0 {
		return nil
	}
	return strings.Split(string(name), principal.PartsSeparator)
}

func (m *matcher) wantsPrincipal(r *record) bool {
	return slices.ContainsFunc(m.principals, func(p string) bool {
		return string(r.principalID()) == p || string(r.name) == p || slices.Contains(parts(r.name), p)
	})
}

// within reports whether a record belongs to the workflow.
func (m *matcher) within(r *record) bool {
	if len(r.correlation) > 0 {
		return bytes.Equal(r.correlation, m.correlation)
	}
	// A request without a workflow begins one, and its answer belongs to that.
	return bytes.Equal(r.id, m.correlation) || (m.whole || r.kind().Answers()) && bytes.Equal(r.causation, m.correlation)
}

// text returns a text that all wanted records have, or nil.
func (m *matcher) text() []byte {
	for _, t := range [...][]byte{m.id, m.causation, m.correlation} {
		if len(t) > 0 {
			return t
		}
	}
	return nil
}

// idByTime returns the id of a wanted message that may be found by its time only, or nil: the one
// that is looked for, or the one that began the workflow.
func (m *matcher) idByTime() []byte {
	switch {
	case len(m.id) > 0:
		return m.id
	case len(m.correlation) > 0 && len(m.causation) == 0:
		return m.correlation
	}
	return nil
}

// only returns the value of a list that has one, and otherwise the zero value.
func only[T any](list []T) (value T) {
	if len(list) == 1 {
		return list[0]
	}
	return value
}

// name returns the name that few pages are likely to have, of those that all wanted messages
// have, or 0. Of several kinds, codes or principals none has to be there.
func (m *matcher) name() name {
	kind, code := only(m.kinds), only(m.codes)
	switch {
	case len(m.id) > 0:
		return nameOf(tagID, m.id)
	case len(m.causation) > 0:
		return nameOf(tagID, m.causation)
	case len(m.correlation) > 0:
		return nameOf(tagID, m.correlation)
	case code != 0:
		return codeName(code)
	case kind == message.KindError || kind == message.KindEvent:
		return nameOf(tagKind, []byte(kind))
	}
	if own := cmp.Or(string(m.own), only(m.principals)); own != "" && own != string(principal.OwnerID) {
		return nameOf(tagPrincipal, []byte(own))
	}
	if n := m.typeName(); n != 0 {
		return n
	}
	if kind != "" {
		return nameOf(tagKind, []byte(kind))
	}
	return 0
}

// wantedData decides which messages are wanted with their data.
type wantedData byte

const (
	allData wantedData = iota
	errorData
	noData
)

// wantsData reports whether the data of a record are needed: for the caller, or for the words.
func (m *matcher) wantsData(r *record) bool {
	return m.data == allData || m.data == errorData && r.kind() == message.KindError || len(m.words) > 0
}

// A pattern is a form that types have: one type, all of a domain, or an action of any domain.
type pattern struct{ exact, domain, action []byte }

// patterns reads the types of a filter. Nil means that all are wanted.
func patterns(text string) (all []pattern) {
	if text == "" {
		return nil
	}
	for one := range strings.SplitSeq(text, ",") {
		domain, ofDomain := strings.CutSuffix(one, ".*")
		action, anywhere := strings.CutPrefix(one, "*.")
		switch {
		case one == "*":
			return nil
		case ofDomain:
			all = append(all, pattern{domain: []byte(domain)})
		case anywhere:
			all = append(all, pattern{action: []byte(action)})
		default:
			all = append(all, pattern{exact: []byte(one)})
		}
	}
	return all
}

func (p *pattern) matches(typ []byte) bool {
	if p.exact != nil {
		return bytes.Equal(typ, p.exact)
	}
	domain, action, ok := bytes.Cut(typ, []byte("."))
	return ok && (p.domain == nil || bytes.Equal(domain, p.domain)) && (p.action == nil || bytes.Equal(action, p.action))
}

func (m *matcher) wantsType(typ []byte) bool {
	return len(m.types) == 0 || slices.ContainsFunc(m.types, func(p pattern) bool { return p.matches(typ) })
}

// typeName returns the name that all messages of the wanted types have, or 0 if there is none:
// several types, or an action, which are looked for on all pages.
func (m *matcher) typeName() name {
	if len(m.types) != 1 {
		return 0
	}
	switch p := &m.types[0]; {
	case p.exact != nil:
		return nameOf(tagType, p.exact)
	case p.domain != nil:
		return nameOf(tagDomain, p.domain)
	}
	return 0
}
