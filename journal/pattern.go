package journal

import (
	"bytes"
	"strings"
)

// A pattern is a form that types have: one type, all of a domain, or an action of any domain.
type pattern struct{ whole, domain, action []byte }

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
			all = append(all, pattern{whole: []byte(one)})
		}
	}
	return all
}

func (p *pattern) matches(typ []byte) bool {
	if p.whole != nil {
		return bytes.Equal(typ, p.whole)
	}
	domain, action, ok := bytes.Cut(typ, []byte("."))
	return ok && (p.domain == nil || bytes.Equal(domain, p.domain)) && (p.action == nil || bytes.Equal(action, p.action))
}

// wantsType reports whether messages of a type are wanted.
func (m *matcher) wantsType(typ []byte) bool {
	for i := range m.types {
		if m.types[i].matches(typ) {
			return true
		}
	}
	return len(m.types) == 0
}

// typeName is the name that all messages of the wanted types have, or 0 if there is none:
// several types, or an action, which are looked for on all pages.
func (m *matcher) typeName() name {
	if len(m.types) != 1 {
		return 0
	}
	switch p := &m.types[0]; {
	case p.whole != nil:
		return nameOf(tagType, p.whole)
	case p.domain != nil:
		return nameOf(tagDomain, p.domain)
	}
	return 0
}
