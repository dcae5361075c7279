package history

import (
	"encoding/json"
	"strconv"

	"kernos/internal/jsonscan"
)

// json writes the graph for programs. Edges name messages by id; where an id is not
// one message's alone, the edge has the sequence numbers too.
func (g *graph) json() json.RawMessage {
	dst := make([]byte, 0, 64+len(g.nodes)*256)
	dst = append(dst, `{"nodes":[`...)
	for i := range g.nodes {
		n := &g.nodes[i]
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = jsonscan.AppendQuoted(append(dst, `{"id":`...), string(n.id))
		if n.missing() {
			dst = append(dst, `,"missing":true}`...)
			continue
		}
		dst = jsonscan.AppendQuoted(append(dst, `,"kind":`...), string(n.kind))
		dst = jsonscan.AppendQuoted(append(dst, `,"type":`...), string(n.typ))
		dst = strconv.AppendUint(append(dst, `,"seq":`...), n.seq, 10)
		dst = strconv.AppendInt(append(dst, `,"timestamp":`...), n.timestamp, 10)
		if took, known := g.took(n); known && n.answers {
			dst = strconv.AppendInt(append(dst, `,"duration":`...), took.Milliseconds(), 10)
		}
		if n.failed {
			dst = append(dst, `,"failed":true`...)
		}
		if n.code != 0 {
			dst = strconv.AppendInt(append(dst, `,"code":`...), int64(n.code), 10)
		}
		dst = append(dst, '}')
	}
	dst = append(dst, `],"edges":[`...)
	first := true
	for i := range g.nodes {
		n := &g.nodes[i]
		if n.parent == none {
			continue
		}
		if !first {
			dst = append(dst, ',')
		}
		first = false
		p := &g.nodes[n.parent]
		dst = jsonscan.AppendQuoted(append(dst, `{"from":`...), string(p.id))
		dst = jsonscan.AppendQuoted(append(dst, `,"to":`...), string(n.id))
		if p.ambiguous || n.ambiguous {
			if !p.missing() {
				dst = strconv.AppendUint(append(dst, `,"fromSeq":`...), p.seq, 10)
			}
			dst = strconv.AppendUint(append(dst, `,"toSeq":`...), n.seq, 10)
		}
		dst = append(dst, '}')
	}
	dst = append(dst, `],"roots":`...)
	dst = g.appendIDs(dst, g.roots)
	if len(g.cycles) > 0 {
		dst = append(dst, `,"cycles":[`...)
		for i, c := range g.cycles {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = g.appendIDs(dst, c)
		}
		dst = append(dst, ']')
	}
	if g.more {
		dst = append(dst, `,"more":true`...)
	}
	return append(g.dropped.append(dst), '}')
}

func (g *graph) appendIDs(dst []byte, nodes []int) []byte {
	dst = append(dst, '[')
	for k, i := range nodes {
		if k > 0 {
			dst = append(dst, ',')
		}
		dst = jsonscan.AppendQuoted(dst, string(g.nodes[i].id))
	}
	return append(dst, ']')
}
