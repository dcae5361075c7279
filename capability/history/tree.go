package history

import (
	"fmt"
	"strconv"
	"time"

	"kernos/internal/visible"
	"kernos/message"
)

// maxIndent is how many levels a tree is indented. What is deeper is written at this
// depth with its level before it: a chain of 10,000 messages would be 150 MB of blanks.
const maxIndent = 24

// tree draws the graph as text, a line for a message.
func (g *graph) tree() []byte {
	dst := make([]byte, 0, 64+len(g.nodes)*96)
	// open holds for each level above the current node whether more follows there; the
	// walk goes down by first and on by next, and back up by parent.
	var open []bool
	for _, root := range g.roots {
		i := root
		for {
			n := &g.nodes[i]
			last := i == root || n.next == none
			dst = appendBranch(dst, open, i != root, last)
			dst = g.appendLine(dst, n)
			if n.first != none {
				if i != root {
					open = append(open, !last)
				}
				i = n.first
				continue
			}
			for i != root && g.nodes[i].next == none {
				i = g.nodes[i].parent
				if i != root {
					open = open[:len(open)-1]
				}
			}
			if i == root {
				break
			}
			i = g.nodes[i].next
		}
	}
	for _, c := range g.cycles {
		dst = append(dst, "↻ cycle: "...)
		for k, i := range c {
			if k == 8 {
				dst = append(dst, "… → "...)
				break
			}
			dst = append(visible.Append(dst, shorten(string(g.nodes[i].id), maxTreeID)), " → "...)
		}
		dst = append(visible.Append(dst, shorten(string(g.nodes[c[0]].id), maxTreeID)), '\n')
	}
	if g.more {
		dst = append(dst, "… the workflow continues\n"...)
	}
	if g.dropped != nil {
		dst = fmt.Appendf(dst, "◌ the journal is not whole: %s\n", g.dropped)
	}
	if g.Note != "" {
		dst = fmt.Appendf(dst, "◌ %s\n", g.Note)
	}
	return dst
}

// appendBranch appends what stands before a node: a bar for every level above it where
// more follows, and its own branch.
func appendBranch(dst []byte, open []bool, branch, last bool) []byte {
	if extra := len(open) - maxIndent; extra > 0 {
		dst = strconv.AppendInt(append(dst, "⋯"...), int64(extra), 10)
		dst = append(dst, ' ')
		open = open[extra:]
	}
	for _, more := range open {
		if more {
			dst = append(dst, "│  "...)
		} else {
			dst = append(dst, "   "...)
		}
	}
	switch {
	case !branch:
	case last:
		dst = append(dst, "└─ "...)
	default:
		dst = append(dst, "├─ "...)
	}
	return dst
}

func (g *graph) appendLine(dst []byte, n *node) []byte {
	dst = append(append(dst, n.style().glyph...), ' ')
	took, known := g.took(n)
	switch {
	case n.missing():
		dst = append(dst, n.title()...)
	case n.answers && n.typ == g.nodes[n.parent].typ:
		dst = append(dst, n.kind...)
	default:
		dst = visible.Append(dst, n.title())
		if n.kind.Answers() {
			dst = append(append(dst, ' '), n.kind...)
		}
	}
	if n.claim {
		dst = append(dst, ", claimed"...)
	}
	if n.step != "" && !n.answers {
		dst = visible.Append(append(dst, " (step "...), truncate(n.step, maxDrawnText))
		dst = append(dst, ')')
	}
	if n.kind == message.KindError {
		dst = strconv.AppendInt(append(dst, ' '), int64(n.code), 10)
		dst = visible.Append(append(dst, ' '), truncate(n.text, maxTreeText))
	}
	switch {
	case known && n.answers:
		dst = append(append(dst, "  "...), shortly(took)...)
	case known:
		dst = append(append(dst, "  +"...), shortly(took)...)
	case n.parent == none && !n.missing():
		dst = append(dst, "  "...)
		dst = time.UnixMilli(n.at).UTC().AppendFormat(dst, "2006-01-02 15:04:05.000Z")
	}
	dst = visible.Append(append(dst, "  "...), shorten(string(n.id), maxTreeID))
	if n.acts() {
		dst = visible.Append(append(dst, "  "...), n.principal)
	}
	if n.cut {
		dst = append(dst, "  ↻ caused by "...)
		dst = visible.Append(dst, shorten(string(n.causation), maxTreeID))
	}
	return append(dst, '\n')
}
