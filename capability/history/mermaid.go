package history

import (
	"fmt"
	"strconv"
	"unicode"
	"unicode/utf8"

	"kernos/internal/visible"
	"kernos/message"
)

// shapes of the kinds in a Mermaid flowchart: what opens and what closes a label.
func mermaidShape(n *node) (open, end string) {
	switch n.kind {
	case message.KindQuery:
		return `("`, `")`
	case message.KindEvent:
		return `{{"`, `"}}`
	case message.KindReply, message.KindError:
		return `(["`, `"])`
	}
	return `["`, `"]`
}

// class is the name under which a node is coloured.
func (n *node) class() string {
	switch {
	case n.missing():
		return "missing"
	case n.failed:
		return "failed"
	}
	return string(n.kind)
}

const mermaidClasses = `  classDef command fill:#dbeafe,stroke:#2563eb,color:#0f172a
  classDef query fill:#f1f5f9,stroke:#64748b,color:#0f172a
  classDef event fill:#fef9c3,stroke:#ca8a04,color:#0f172a
  classDef reply fill:#dcfce7,stroke:#16a34a,color:#0f172a
  classDef failed fill:#fee2e2,stroke:#dc2626,color:#0f172a
  classDef missing fill:#ffffff,stroke:#64748b,color:#64748b,stroke-dasharray:4 4
`

// mermaid draws the graph as a Mermaid flowchart. Nodes have names of their own; what
// comes from messages stands in quotes only, and there every character that could mean
// something is an entity.
func (g *graph) mermaid() []byte {
	dst := make([]byte, 0, 256+len(g.nodes)*128)
	dst = append(dst, "graph TD\n"...)
	for i := range g.nodes {
		n := &g.nodes[i]
		open, end := mermaidShape(n)
		dst = append(appendName(append(dst, "  "...), i), open...)
		dst = n.appendLabel(dst, "<br/>", appendMermaid)
		dst = append(append(append(dst, end...), ":::"...), n.class()...)
		dst = append(dst, '\n')
	}
	if g.more {
		dst = append(dst, "  more[\"the workflow goes on\"]:::missing\n"...)
	}
	for i := range g.nodes {
		n := &g.nodes[i]
		if n.parent == none {
			continue
		}
		dst = appendName(append(dst, "  "...), n.parent)
		took, known := g.took(n)
		switch {
		case n.cut:
			dst = append(dst, ` == "↻ cycle" ==> `...)
		case n.answers && known:
			dst = append(append(append(dst, ` -. "`...), shortly(took)...), `" .-> `...)
		case n.answers:
			dst = append(dst, ` -.-> `...)
		default:
			dst = append(dst, ` --> `...)
		}
		dst = append(appendName(dst, i), '\n')
	}
	if g.dropped != nil {
		dst = fmt.Appendf(dst, "  %%%% The journal is not whole: %s\n", g.dropped)
	}
	return append(dst, mermaidClasses...)
}

// appendLabel appends what stands in a node: what it is, and its id.
func (n *node) appendLabel(dst []byte, newline string, appendText func([]byte, string) []byte) []byte {
	dst = appendText(dst, n.title())
	switch n.kind {
	case message.KindError:
		dst = fmt.Appendf(dst, " ✗ %d%s", n.code, newline)
		dst = appendText(dst, cutText(n.text, maxDrawnText))
	case message.KindReply:
		dst = append(dst, " ✓"...)
	}
	return appendText(append(dst, newline...), shorten(string(n.id), maxDrawnID))
}

// appendName appends the name of a node: n1, n2, …
func appendName(dst []byte, i int) []byte {
	return strconv.AppendInt(append(dst, 'n'), int64(i+1), 10)
}

// appendMermaid appends a text for use between quotes. Letters, digits and a few signs
// stand for themselves; all else is an entity, also the colon, since Mermaid takes
// "style…:…#…;" for a style wherever it stands.
func appendMermaid(dst []byte, s string) []byte { return appendEntities(dst, s, "#") }

// appendEntities writes a text in which everything but letters, digits, full stops, low
// lines, hyphens and blanks between words is an entity with this beginning.
func appendEntities(dst []byte, s string, begin string) []byte {
	var buffer [64]byte
	for i := 0; i < len(s); {
		if c := s[i]; c < utf8.RuneSelf && plainInLabels[c] {
			dst = append(dst, c)
			i++
			continue
		} else if c == ' ' && i > 0 && wordInLabels(s[i-1]) {
			dst = append(dst, c) // between words; "1. " or "- " would begin a list
			i++
			continue
		}
		_, size := utf8.DecodeRuneInString(s[i:])
		shown := visible.Append(buffer[:0], s[i:i+size])
		i += size
		for _, r := range string(shown) {
			if r < utf8.RuneSelf && plainInLabels[r] || r >= utf8.RuneSelf && (unicode.IsLetter(r) || unicode.IsDigit(r) || r == '…') {
				dst = utf8.AppendRune(dst, r)
				continue
			}
			dst = strconv.AppendInt(append(dst, begin...), int64(r), 10)
			dst = append(dst, ';')
		}
	}
	return dst
}

// wordInLabels reports whether a byte is part of a word of ASCII.
func wordInLabels(c byte) bool {
	return c < utf8.RuneSelf && plainInLabels[c] && c != '.' && c != '-'
}

// plainInLabels are the ASCII characters that mean nothing to Mermaid, DOT or HTML.
var plainInLabels = func() (plain [utf8.RuneSelf]bool) {
	for c := range plain {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '.', c == '_', c == '-':
			plain[c] = true
		}
	}
	return plain
}()
