package history

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	"kernos/kernel"
	"kernos/message"
)

// A node is one message of a workflow, or the place of one that is missing.
//
// The numbers of other nodes are indices; none is -1.
type node struct {
	seq       uint64
	at        int64 // time of the record, in milliseconds
	timestamp int64
	kind      message.Kind // "" for one that is missing
	typ       message.Type
	id        message.ID
	causation message.ID
	code      int    // the code of an error
	text      string // the text of an error
	step      string // the step of a job that it belongs to
	principal string // the name of the principal that sent it or, if it is an answer, that gets it
	wire      string
	claim     bool // a program has sent it without being asked: it answers nothing

	failed    bool // an error, or a request that an error answers
	ambiguous bool // another node has this id

	parent      int  // the node that caused this one
	first, last int  // the nodes that this one caused
	next        int  // the node that its parent caused next
	ordered     bool // the parent came before this node
	cut         bool // a cycle is cut here: the node stands as a root
	answers     bool // the node is the outcome of its parent
}

// A graph is the messages of a workflow, tied by causation. Every node has one parent at
// most, so the only thing that keeps it from being a forest is a cycle; each is cut at
// its oldest message.
//
// Ids come from outside. They may repeat, name each other in a circle or name
// themselves; nothing here recurses, and every message is one node.
type graph struct {
	nodes  []node // in the order of the journal; missing messages come last
	roots  []int
	cycles [][]int
	more   bool // the workflow continues

	dropped *gap // dropped messages, some of which may be missing
	kernel.Narrowed
}

const none = -1

// newGraph ties messages, which must be in the order of the journal. It keeps the slice.
func newGraph(nodes []node) *graph {
	g := &graph{nodes: nodes}
	byID := make(map[message.ID]int, len(nodes)) // the first of its id
	for i := range nodes {
		n := &nodes[i]
		n.parent, n.first, n.last, n.next = none, none, none, none
		if first, repeated := byID[n.id]; repeated {
			nodes[first].ambiguous, n.ambiguous = true, true
		} else {
			byID[n.id] = i
		}
	}

	// A second pass in the same order finds for every message the last one before it
	// that has the id of its cause: a client may use an id again, and an answer is
	// to the latest message of that name.
	before := make(map[message.ID]int) // the latest of an id that repeats
	missing := make(map[message.ID]int)
	count := len(nodes)
	for i := range count {
		n := &g.nodes[i]
		if c := n.causation; c != "" {
			p, known := byID[c]
			switch {
			case known && p < i:
				if latest, ok := before[c]; ok {
					p = latest
				}
			case known: // itself, or one that comes later
			default:
				if p, known = missing[c]; !known {
					p = len(g.nodes)
					missing[c] = p
					g.nodes = append(g.nodes, node{id: c, parent: none, first: none, last: none, next: none})
					n = &g.nodes[i] // the slice may have moved
				}
			}
			n.parent = p
			n.ordered = p < i
		}
		if n.ambiguous {
			before[n.id] = i
		}
	}
	g.findCycles()
	g.tie()
	return g
}

// findCycles follows causes from every node until it meets one that it has seen. Every
// node is walked over twice at most.
func (g *graph) findCycles() {
	walk := make([]int, len(g.nodes)) // number of the walk that has seen each node, 0 for none
	for start := range g.nodes {
		i := start
		for i != none && walk[i] == 0 {
			walk[i] = start + 1
			i = g.nodes[i].parent
		}
		if i == none || walk[i] != start+1 {
			continue
		}
		cycle := []int{i} // the walk came back to i
		for p := g.nodes[i].parent; p != i; p = g.nodes[p].parent {
			cycle = append(cycle, p)
		}
		// From the oldest on, in the direction of effects.
		slices.Reverse(cycle)
		oldest := slices.Index(cycle, slices.Min(cycle))
		cycle = slices.Concat(cycle[oldest:], cycle[:oldest])
		g.nodes[cycle[0]].cut = true
		g.cycles = append(g.cycles, cycle)
	}
	slices.SortFunc(g.cycles, func(a, b []int) int { return a[0] - b[0] })
}

// tie makes the lists of effects, and finds what failed.
func (g *graph) tie() {
	for i := range g.nodes {
		n := &g.nodes[i]
		n.failed = n.failed || n.kind == message.KindError && !n.claim
		if n.parent == none || n.cut {
			continue
		}
		p := &g.nodes[n.parent]
		n.answers = n.kind.Answers() && p.kind.Asks() && !n.claim
		if n.answers && n.kind == message.KindError {
			p.failed = true
			p.code = cmp.Or(p.code, n.code)
		}
		if p.first == none {
			p.first = i
		} else {
			g.nodes[p.last].next = i
		}
		p.last = i
	}
	// What is missing stands where its first effect would.
	for i := range g.nodes {
		n := &g.nodes[i]
		switch {
		case n.kind == "":
		case n.parent == none || n.cut:
			g.roots = append(g.roots, i)
		case g.nodes[n.parent].kind == "" && g.nodes[n.parent].first == i:
			g.roots = append(g.roots, n.parent)
		}
	}
}

// missing reports whether the node stands for a message that is not in the journal.
func (n *node) missing() bool { return n.kind == "" }

// took returns the time from a node's cause to the node, if both are known and in order.
func (g *graph) took(n *node) (time.Duration, bool) {
	if n.parent == none || n.cut || !n.ordered {
		return 0, false
	}
	p := &g.nodes[n.parent]
	if p.missing() || n.at < p.at {
		return 0, false
	}
	return time.Duration(n.at-p.at) * time.Millisecond, true
}

// shortly writes a duration with three digits at most.
func shortly(d time.Duration) string {
	switch {
	case d < time.Second:
		return strconv.FormatInt(d.Milliseconds(), 10) + "ms"
	case d < 10*time.Second:
		return strconv.FormatFloat(d.Seconds(), 'f', 2, 64) + "s"
	case d < 100*time.Second:
		return strconv.FormatFloat(d.Seconds(), 'f', 1, 64) + "s"
	case d < 100*time.Minute:
		return strconv.FormatFloat(d.Minutes(), 'f', 0, 64) + "min"
	case d < 100*time.Hour:
		return strconv.FormatFloat(d.Hours(), 'f', 0, 64) + "h"
	}
	return strconv.FormatFloat(d.Hours()/24, 'f', 0, 64) + "d"
}
