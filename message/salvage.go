package message

import (
	"cmp"

	"kernos/internal/jsonscan"
)

// A Salvage reads what it can of a line that is not a message, so that its sender
// can be answered: the names of the top level's members, the strings and numbers among their
// values, and of metadata the id, the correlation, the causation and the version. It never fails: what it can't read is not there.
//
// A line may be written to it in pieces of any size; it keeps some tens of
// kilobytes at most, however long the line is. Its zero value is ready.
type Salvage struct {
	depth    int
	object   [3]bool // whether what is open at depth 1 and 2 is an object
	inString bool
	escaped  bool   // the last byte was a backslash in a string
	isName   bool   // the next string is a member's name
	name     string // the name of the last member of the top level
	inner    string // the name of the last member of metadata
	token    []byte // the string that is being read, quotes included
	number   []byte // the value of the top level that is being read, if it is a number
	members  []salvaged
	metadata Metadata // as far as it was read
}

type salvaged struct{ name, value, number string }

const (
	maxSalvaged      = 16
	maxSalvagedToken = 6*MaxIDLength + 2 // an id in escapes
)

// SalvageLine reads a whole line.
func SalvageLine(line []byte) *Salvage {
	s := new(Salvage)
	_, _ = s.Write(line)
	return s
}

// Write reads a piece of the line. It always takes all of it.
func (s *Salvage) Write(piece []byte) (int, error) {
	for _, c := range piece {
		if s.inString {
			s.stringByte(c)
			continue
		}
		switch c {
		case '"':
			s.inString = true
			s.token = append(s.token[:0], c)
		case '{', '[':
			s.depth++
			s.isName = c == '{'
			if s.depth < len(s.object) {
				s.object[s.depth] = c == '{'
			}
		case '}', ']':
			s.endNumber()
			s.depth = max(s.depth-1, 0)
			s.isName = false
		case ',':
			s.endNumber()
			s.isName = s.depth < len(s.object) && s.object[s.depth]
		case ':':
			s.isName = false
		case '-', '+', '.', 'e', 'E', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9':
			if s.depth == 1 && len(s.number) <= MaxIDLength {
				s.number = append(s.number, c)
			}
		}
	}
	return len(piece), nil
}

func (s *Salvage) stringByte(c byte) {
	if len(s.token) <= maxSalvagedToken {
		s.token = append(s.token, c)
	}
	switch {
	case s.escaped:
		s.escaped = false
	case c == '\\':
		s.escaped = true
	case c == '"':
		s.inString = false
		s.endString()
	}
}

func (s *Salvage) endNumber() {
	if s.depth != 1 {
		return
	}
	for i := range s.members {
		if m := &s.members[i]; m.name == s.name && m.value == "" && m.number == "" && len(s.number) <= MaxIDLength && jsonscan.Valid(s.number) {
			m.number = string(s.number)
		}
	}
	s.number = s.number[:0]
}

func (s *Salvage) endString() {
	var text string
	if len(s.token) <= maxSalvagedToken {
		if end, _, err := jsonscan.String(s.token, 0); err == nil && end == len(s.token) {
			text = jsonscan.Unquote(s.token)
		}
	}
	switch {
	case s.depth == 0 || s.depth >= len(s.object) || !s.object[s.depth]:
		// Not a member of the envelope, nor of metadata.
	case s.depth == 1 && s.isName:
		s.name = text
		if _, seen := s.Member(text); !seen && len(s.members) < maxSalvaged {
			s.members = append(s.members, salvaged{name: text})
		}
	case s.depth == 1:
		for i := range s.members {
			if s.members[i].name == s.name && s.members[i].value == "" {
				s.members[i].value = text
			}
		}
	case s.name != "metadata":
	case s.isName:
		s.inner = text
	case s.inner == "id":
		s.metadata.ID = cmp.Or(s.metadata.ID, ID(text))
	case s.inner == "correlation":
		s.metadata.Correlation = cmp.Or(s.metadata.Correlation, text)
	case s.inner == "causation":
		s.metadata.Causation = cmp.Or(s.metadata.Causation, ID(text))
	case s.inner == "schemaVersion":
		s.metadata.SchemaVersion = cmp.Or(s.metadata.SchemaVersion, text)
	}
}

// Member returns the string that a member of the top level holds, or "", and
// whether there is such a member.
func (s *Salvage) Member(name string) (value string, seen bool) {
	for _, m := range s.members {
		if m.name == name {
			return m.value, true
		}
	}
	return "", false
}

// Number returns the number that a member of the top level holds, as it is written, or "".
func (s *Salvage) Number(name string) string {
	for _, m := range s.members {
		if m.name == name {
			return m.number
		}
	}
	return ""
}

// Version returns that of the metadata, as [Metadata.Version] does.
func (s *Salvage) Version() string { return s.metadata.Version() }

// Request returns as much of the message as an answer and a record need: a type, which is
// [ValidationFailed] if the line's own can't be used; a kind, an id, a correlation and a
// causation, each of which may be "".
func (s *Salvage) Request(d *Dialect) Message {
	m := Message{Type: ValidationFailed}
	if name, _ := s.Member(d.Type); Type(name).Valid() {
		m.Type = Type(name)
	}
	m.Metadata.ID = ID(usable(string(s.metadata.ID)))
	m.Metadata.Correlation = usable(s.metadata.Correlation)
	m.Metadata.Causation = ID(usable(string(s.metadata.Causation)))
	word, _ := s.Member(d.Kind)
	m.Kind, _ = d.kind([]byte(word))
	return m
}

// usable returns s if it may be an id, and "" otherwise.
func usable(s string) string {
	var e envelope
	quoted := jsonscan.AppendQuoted(nil, s)
	s = e.idString("", member{line: quoted, text: string(quoted)})
	if e.problems != nil {
		return ""
	}
	return s
}
