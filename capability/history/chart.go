package history

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"kernos/internal/visible"
	"kernos/kernel/principal"
	"kernos/message"
	"kernos/message/mark"
)

// A style is how messages of a kind are drawn.
type style struct {
	glyph     string // the sign in a tree
	open, end string // brackets of the label in Mermaid
	class     string // the class in Mermaid
	shape     string // the shape in Graphviz, as are the colours
	colours   string
}

const (
	ink  = "#0f172a" // of texts
	grey = "#64748b" // of what isn't known to be true, or isn't there
)

var red = mark.Of[message.KindError].Light

// claimed is how a message is drawn that is only a claim of a program, whatever its kind.
var claimed = style{mark.Claim, `["`, `"]`, "claim", `shape=box,style="dashed",`, `color="` + red + `",fontcolor="` + grey + `"`}

// style returns how a message is drawn.
func (n *node) style() style {
	if n.claim {
		return claimed
	}
	return styles[n.kind]
}

var styles = map[message.Kind]style{
	message.KindCommand: marked(message.KindCommand, `["`, `"]`, "command", `shape=box,`),
	message.KindQuery:   marked(message.KindQuery, `("`, `")`, "query", `shape=box,style="rounded,filled",`),
	message.KindEvent:   marked(message.KindEvent, `{{"`, `"}}`, "event", `shape=hexagon,`),
	message.KindReply:   marked(message.KindReply, `(["`, `"])`, "reply", `shape=oval,`),
	message.KindError:   marked(message.KindError, `(["`, `"])`, "failed", `shape=oval,`),
	"":                  {"◌", `["`, `"]`, "missing", `shape=box,style="dashed",`, `color="` + grey + `",fontcolor="` + grey + `"`}, // a missing message
}

// marked returns the style of a kind, with its sign and colours.
func marked(k message.Kind, open, end, class, shape string) style {
	m := mark.Of[k]
	return style{m.Sign, open, end, class, shape, fmt.Sprintf("fillcolor=%q,color=%q", m.Fill, m.Light)}
}

// A notation is the language of a program that draws graphs. Nodes have names of their own;
// what comes from messages stands in quotes only, and there every character that could mean
// something is an entity.
type notation struct {
	begin, end string
	node       func(n *node) (open string, end [4]string) // around the label
	newline    string                                     // a line break in a label
	entity     string                                     // how an entity begins
	backslash  string                                     // text after the entity of a backslash
	more       string                                     // the node for the rest of the workflow
	comment    string
	claims     string // stands at the end if there are claims

	// What stands between the two nodes of an edge, and after them: for a cause and its
	// effect, for an answer, for an answer whose time is known, and for a cycle.
	plain, answer, timed, cycle [2]string
}

var mermaid = notation{
	begin: "graph TD\n",
	end:   mermaidClasses,
	node: func(n *node) (open string, end [4]string) {
		l := n.style()
		if n.failed {
			l.class = "failed"
		}
		return l.open, [4]string{l.end, ":::", l.class, "\n"}
	},
	newline: "<br/>",
	entity:  "#",
	more:    "  more[\"the workflow continues\"]:::missing\n",
	comment: "%%",
	claims:  "  classDef claim fill:#ffffff,stroke:" + red + ",color:" + grey + ",stroke-dasharray:4 4\n",
	plain:   [2]string{` --> `},
	answer:  [2]string{` -.-> `},
	timed:   [2]string{` -. "%s" .-> `},
	cycle:   [2]string{` == "↻ cycle" ==> `},
}

// mermaidClasses has the colours of each kind.
var mermaidClasses = func() (classes string) {
	for _, k := range []message.Kind{message.KindCommand, message.KindQuery, message.KindEvent, message.KindReply, message.KindError} {
		classes += fmt.Sprintf("  classDef %s fill:%s,stroke:%s,color:%s\n", styles[k].class, mark.Of[k].Fill, mark.Of[k].Light, ink)
	}
	return classes + "  classDef missing fill:#ffffff,stroke:" + grey + ",color:" + grey + ",stroke-dasharray:4 4\n"
}()

var graphviz = notation{
	begin: "digraph workflow {\n  rankdir=TB\n  node [style=filled,fontname=\"sans-serif\",fontsize=10]\n  edge [fontname=\"sans-serif\",fontsize=9]\n",
	end:   "}\n",
	node: func(n *node) (open string, end [4]string) {
		l := n.style()
		if n.failed {
			l.colours = styles[message.KindError].colours
		}
		return ` [label="`, [4]string{`",`, l.shape, l.colours, "]\n"}
	},
	newline:   `\n`,
	entity:    "&#",
	backslash: "&#92;", // Graphviz reads backslashes after entities
	more:      "  more [label=\"the workflow continues\",shape=box,style=dashed]\n",
	comment:   "//",
	plain:     [2]string{" -> "},
	answer:    [2]string{" -> ", ` [style=dashed]`},
	timed:     [2]string{" -> ", ` [style=dashed,label="%s"]`},
	cycle:     [2]string{" -> ", ` [label="↻ cycle",color="` + red + `",penwidth=2,constraint=false]`},
}

// chart draws the graph in a notation.
func (g *graph) chart(w *notation) []byte {
	dst := append(make([]byte, 0, 512+len(g.nodes)*160), w.begin...)
	for i := range g.nodes {
		n := &g.nodes[i]
		open, end := w.node(n)
		dst = append(appendName(append(dst, "  "...), i), open...)
		dst = w.appendLabel(dst, n)
		for _, part := range end {
			dst = append(dst, part...)
		}
	}
	if g.more {
		dst = append(dst, w.more...)
	}
	for i := range g.nodes {
		n := &g.nodes[i]
		if n.parent == none {
			continue
		}
		edge := w.plain
		took, known := g.took(n)
		switch {
		case n.cut:
			edge = w.cycle
		case n.answers && known:
			edge = w.timed
			for k := range edge {
				edge[k] = strings.Replace(edge[k], "%s", shortly(took), 1)
			}
		case n.answers:
			edge = w.answer
		}
		dst = append(appendName(append(dst, "  "...), n.parent), edge[0]...)
		dst = append(append(appendName(dst, i), edge[1]...), '\n')
	}
	if g.dropped != nil {
		dst = fmt.Appendf(dst, "  %s The journal is not whole: %s\n", w.comment, g.dropped)
	}
	if g.Note != "" {
		dst = fmt.Appendf(dst, "  %s The graph has %s\n", w.comment, g.Note)
	}
	if slices.ContainsFunc(g.nodes, func(n node) bool { return n.claim }) {
		dst = append(dst, w.claims...)
	}
	return append(dst, w.end...)
}

// appendName appends the name of a node: n1, n2, …
func appendName(dst []byte, i int) []byte {
	return strconv.AppendInt(append(dst, 'n'), int64(i+1), 10)
}

// appendLabel appends what stands in a node: what it is, and its id.
func (w *notation) appendLabel(dst []byte, n *node) []byte {
	dst = w.appendText(dst, n.title())
	switch {
	case n.claim:
		dst = fmt.Appendf(dst, " %s, claimed", n.kind)
	case n.kind == message.KindError:
		dst = fmt.Appendf(dst, " ✗ %d%s", n.code, w.newline)
		dst = w.appendText(dst, truncate(n.text, maxDrawnText))
	case n.kind == message.KindReply:
		dst = append(dst, " ✓"...)
	}
	if n.step != "" {
		dst = w.appendText(append(dst, w.newline...), "step "+truncate(n.step, maxDrawnText))
	}
	if n.acts() {
		dst = w.appendText(append(dst, w.newline...), truncate(n.principal, maxDrawnText))
	}
	return w.appendText(append(dst, w.newline...), shorten(string(n.id), maxDrawnID))
}

// appendText appends a text for use between quotes. Letters, digits, full stops, low lines,
// hyphens and blanks between words stand for themselves. All else is an entity, also the
// colon, since Mermaid takes "style…:…#…;" for a style wherever it stands, and the blank in
// "1. " or "- ", which would begin a list.
func (w *notation) appendText(dst []byte, s string) []byte {
	last := rune(0)
	for _, r := range visible.Text(s) {
		switch {
		case isWord(r), r == '.', r == '-', r >= utf8.RuneSelf && (unicode.IsLetter(r) || unicode.IsDigit(r) || r == '…'), r == ' ' && isWord(last):
			dst = utf8.AppendRune(dst, r)
		default:
			dst = append(strconv.AppendInt(append(dst, w.entity...), int64(r), 10), ';')
			if r == '\\' {
				dst = append(dst, w.backslash...)
			}
		}
		last = r
	}
	return dst
}

// isWord reports whether a character is part of a word of ASCII.
func isWord(r rune) bool {
	return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || r == '_'
}

// How much of a text is shown in a node.
const (
	maxDrawnID   = 16
	maxTreeID    = 26 // a ULID is shown whole
	maxDrawnText = 40
	maxTreeText  = 80
)

// title returns what a node is called.
func (n *node) title() string {
	if n.missing() {
		return "not in this graph"
	}
	return truncate(string(n.typ), message.MaxTypeLength)
}

// acts reports whether the node names its principal: the owner is not worth a word.
func (n *node) acts() bool { return n.principal != "" && n.principal != string(principal.OwnerID) }

// truncate cuts a text at its end if it has more characters than most.
func truncate(s string, most int) string { return elide(s, most, 0) }

// shorten cuts a text in its middle: ids often begin alike and differ at their ends.
func shorten(s string, most int) string { return elide(s, most, most/2) }

// elide cuts a text, and keeps some characters at its end.
func elide(s string, most, end int) string {
	if len(s) <= most || utf8.RuneCountInString(s) <= most {
		return s
	}
	runes := []rune(s)
	return string(runes[:most-1-end]) + "…" + string(runes[len(runes)-end:])
}
