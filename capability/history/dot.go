package history

import (
	"fmt"
	"strings"

	"kernos/message"
)

// dotStyle is how Graphviz draws a node.
func dotStyle(n *node) string {
	switch {
	case n.missing():
		return `shape=box,style="dashed",color="#64748b",fontcolor="#64748b"`
	case n.kind == message.KindError:
		return `shape=oval,fillcolor="#fee2e2",color="#dc2626"`
	case n.failed && n.kind == message.KindQuery:
		return `shape=box,style="rounded,filled",fillcolor="#fee2e2",color="#dc2626"`
	case n.failed:
		return `shape=box,fillcolor="#fee2e2",color="#dc2626"`
	case n.kind == message.KindQuery:
		return `shape=box,style="rounded,filled",fillcolor="#f1f5f9",color="#64748b"`
	case n.kind == message.KindEvent:
		return `shape=hexagon,fillcolor="#fef9c3",color="#ca8a04"`
	case n.kind == message.KindReply:
		return `shape=oval,fillcolor="#dcfce7",color="#16a34a"`
	}
	return `shape=box,fillcolor="#dbeafe",color="#2563eb"`
}

// dot draws the graph for Graphviz.
func (g *graph) dot() []byte {
	dst := make([]byte, 0, 256+len(g.nodes)*160)
	dst = append(dst, "digraph workflow {\n  rankdir=TB\n  node [style=filled,fontname=\"sans-serif\",fontsize=10]\n  edge [fontname=\"sans-serif\",fontsize=9]\n"...)
	for i := range g.nodes {
		n := &g.nodes[i]
		dst = append(appendName(append(dst, "  "...), i), ` [label="`...)
		dst = n.appendLabel(dst, `\n`, appendDot)
		dst = append(append(append(dst, `",`...), dotStyle(n)...), "]\n"...)
	}
	if g.more {
		dst = append(dst, "  more [label=\"the workflow goes on\",shape=box,style=dashed]\n"...)
	}
	for i := range g.nodes {
		n := &g.nodes[i]
		if n.parent == none {
			continue
		}
		dst = appendName(append(dst, "  "...), n.parent)
		dst = appendName(append(dst, " -> "...), i)
		took, known := g.took(n)
		switch {
		case n.cut:
			dst = append(dst, ` [label="↻ cycle",color="#dc2626",penwidth=2,constraint=false]`...)
		case n.answers && known:
			dst = append(append(append(dst, ` [style=dashed,label="`...), shortly(took)...), `"]`...)
		case n.answers:
			dst = append(dst, ` [style=dashed]`...)
		}
		dst = append(dst, '\n')
	}
	if g.dropped != nil {
		dst = fmt.Appendf(dst, "  // The journal is not whole: %s\n", g.dropped)
	}
	return append(dst, "}\n"...)
}

// appendDot appends a text for use between quotes. Graphviz reads a backslash after it
// has read entities, so it needs two.
func appendDot(dst []byte, s string) []byte {
	return appendEntities(dst, strings.ReplaceAll(s, `\`, `\\`), "&#")
}
