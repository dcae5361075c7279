package content

import (
	"regexp"
	"strings"
	"sync"
)

// repair rewrites front matter that is not valid YAML into what people mean by it:
//
//	description: Use it when: always      a colon within a text
//	description: **bold**, @name          a sign that means something else in YAML
//	description: "a" and "b"              a text that only begins like a quoted one
//	argument-hint: [a] [b]                a text that only begins like a list
//	→metadata:                            tabs where blanks belong
//
// Such values are put into quotes, with the lines that belong to them. Everything else
// stays as it is, and what can't be read then is an error.
func repair(text string) string {
	m := mending{lines: strings.Split(text, "\n")}
	for i, line := range m.lines {
		m.lines[i] = strings.TrimSuffix(line, "\r")
	}
	for m.next < len(m.lines) {
		m.line()
	}
	return m.out.String()
}

type mending struct {
	lines []string
	next  int
	out   strings.Builder
}

// line repairs the next line and what belongs to it.
func (m *mending) line() {
	indent, rest := indentation(m.lines[m.next])
	m.next++
	key, value, ok := field(rest)
	switch {
	case !ok:
		m.write(indent, item(rest))
	case value == "":
		m.write(indent, rest)
	case value[0] == '|' || value[0] == '>':
		m.write(indent, rest)
		m.block(len(indent))
	case value[0] == '[' || value[0] == '{':
		if straysFlow(value) {
			rest = key + ": " + yamlQuoted(plain(value))
		}
		m.write(indent, rest)
	case value[0] == '"' || value[0] == '\'':
		if strays(value) {
			rest = key + ": " + yamlQuoted(value)
		}
		m.write(indent, rest)
	default:
		m.write(indent, key+": "+yamlQuoted(m.continued(value, len(indent))))
	}
}

func (m *mending) write(indent, text string) {
	m.out.WriteString(indent)
	m.out.WriteString(text)
	m.out.WriteByte('\n')
}

// block copies the lines of a block text, which are those that stand further in.
func (m *mending) block(depth int) {
	for ; m.next < len(m.lines); m.next++ {
		indent, rest := indentation(m.lines[m.next])
		if rest != "" && len(indent) <= depth {
			return
		}
		m.write(indent, rest)
	}
}

// continued adds the lines that continue a plain text to it.
func (m *mending) continued(value string, depth int) string {
	parts := []string{plain(value)}
	for ; m.next < len(m.lines); m.next++ {
		indent, rest := indentation(m.lines[m.next])
		if rest == "" || len(indent) <= depth || rest[0] == '#' {
			break
		}
		parts = append(parts, plain(rest))
	}
	return strings.Join(parts, " ")
}

// indentation takes the blanks off a line. A tab counts as two.
func indentation(line string) (indent, rest string) {
	rest = strings.TrimLeft(line, " \t")
	indent = strings.ReplaceAll(line[:len(line)-len(rest)], "\t", "  ")
	return indent, strings.TrimRight(rest, " \t")
}

var fieldName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-zA-Z0-9_.-]+$`) })

// field takes a line apart that is a field: a name, perhaps as the first of a list's item,
// and its value.
func field(rest string) (key, value string, ok bool) {
	at := strings.IndexByte(rest, ':')
	if at <= 0 || at+1 < len(rest) && rest[at+1] != ' ' && rest[at+1] != '\t' {
		return "", "", false
	}
	key = rest[:at]
	name := key
	for strings.HasPrefix(name, "- ") {
		name = strings.TrimLeft(name[2:], " ")
	}
	if !fieldName().MatchString(name) {
		return "", "", false
	}
	return key, strings.Trim(rest[at+1:], " \t"), true
}

// item repairs an item of a list whose text begins with a sign that YAML keeps for itself.
func item(rest string) string {
	value, ok := strings.CutPrefix(rest, "- ")
	value = strings.TrimLeft(value, " \t")
	if !ok || value == "" || !strings.ContainsRune("&*!%@`", rune(value[0])) {
		return rest
	}
	return "- " + yamlQuoted(plain(value))
}

// plain takes the comment off a plain text.
func plain(value string) string {
	if at := strings.Index(value, " #"); at >= 0 {
		value = value[:at]
	}
	return strings.TrimRight(value, " \t")
}

// strays reports whether something that isn't a comment stands after the end of a quoted text.
func strays(value string) bool {
	quote := value[0]
	for i := 1; i < len(value); i++ {
		switch {
		case value[i] == '\\' && quote == '"':
			i++
		case value[i] == quote && quote == '\'' && i+1 < len(value) && value[i+1] == quote:
			i++
		case value[i] == quote:
			return goesOn(value[i+1:])
		}
	}
	return false // the text ends on another line, or never
}

// straysFlow is strays for a list or a mapping.
func straysFlow(value string) bool {
	depth := 0
	for i := range len(value) {
		switch value[i] {
		case '[', '{':
			depth++
		case ']', '}':
			depth--
		}
		if depth == 0 {
			return goesOn(value[i+1:])
		}
	}
	return false // the text ends on another line, or never
}

func goesOn(behind string) bool {
	behind = strings.TrimLeft(behind, " \t")
	return behind != "" && behind[0] != '#'
}

// yamlQuoted returns a text as a single-quoted scalar of YAML.
func yamlQuoted(text string) string { return "'" + strings.ReplaceAll(text, "'", "''") + "'" }
