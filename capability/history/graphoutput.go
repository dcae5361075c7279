package history

import (
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"kernos/kernel"
	"kernos/message"
)

// graphOutput is a graph for programs.
type graphOutput struct {
	Nodes   []nodeOutput   `json:"nodes" jsonschema_description:"The messages, in the order of the journal; those that are missing come last."`
	Edges   []edgeOutput   `json:"edges" jsonschema_description:"Causes and effects."`
	Roots   []message.ID   `json:"roots" jsonschema_description:"Ids of the messages that the workflow begins with."`
	Cycles  [][]message.ID `json:"cycles,omitzero" jsonschema_description:"Ids of messages that name each other as their cause. The oldest of each cycle is a root."`
	More    bool           `json:"more,omitzero" jsonschema_description:"The workflow has more messages than a graph shows."`
	Dropped *gap           `json:"dropped,omitzero" jsonschema_description:"Messages that the journal no longer has, and that might have been part of the workflow."`
	kernel.Narrowed
}

type nodeOutput struct {
	ID        message.ID   `json:"id" jsonschema_description:"The message's id."`
	Kind      message.Kind `json:"kind,omitzero" jsonschema_description:"Its kind."`
	Type      message.Type `json:"type,omitzero" jsonschema_description:"Its type."`
	Seq       uint64       `json:"seq,omitzero" jsonschema_description:"Its number in the journal."`
	At        int64        `json:"at,omitzero" jsonschema_description:"When it was recorded, in milliseconds since 1970."`
	Timestamp *int64       `json:"timestamp,omitzero" jsonschema_description:"When it was sent, in milliseconds since 1970."`
	Duration  *int64       `json:"duration,omitzero" jsonschema_description:"Of an answer: how long it took, in milliseconds."`
	Failed    bool         `json:"failed,omitzero" jsonschema_description:"It is an error, or an error answers it."`
	Code      int          `json:"code,omitzero" jsonschema_description:"The code of the error."`
	Step      string       `json:"step,omitzero" jsonschema_description:"The step of a job that it belongs to."`
	Principal string       `json:"principal,omitzero" jsonschema_description:"The caller that it acted for or, if it is an answer, that it was sent to: owner, or the name of a token."`
	Wire      string       `json:"wire,omitzero" jsonschema_description:"The wire that it, or the request that it answers, came over: unix, http, ws."`
	Claim     bool         `json:"claim,omitzero" jsonschema_description:"A program sent it without being asked. A reply or an error that is a claim answers nothing."`
	Missing   bool         `json:"missing,omitzero" jsonschema_description:"A message names it as its cause, and it is not part of the workflow in the journal, or acted for a principal that was not asked for."`
}

// edgeOutput names messages by id; where an id is not one message's alone, it has the
// sequence numbers too.
type edgeOutput struct {
	From    message.ID `json:"from" jsonschema_description:"The id of the cause."`
	To      message.ID `json:"to" jsonschema_description:"The id of the effect."`
	FromSeq uint64     `json:"fromSeq,omitzero" jsonschema_description:"The number of the cause, where an id is not one message's alone."`
	ToSeq   uint64     `json:"toSeq,omitzero" jsonschema_description:"The number of the effect, where an id is not one message's alone."`
}

// json returns the graph for programs, as JSON.
func (g *graph) json() (kernel.Raw, error) {
	text, err := json.Marshal(g.output(), jsontext.AllowInvalidUTF8(true))
	return kernel.Raw(text), err
}

func (g *graph) output() graphOutput {
	out := graphOutput{Nodes: make([]nodeOutput, len(g.nodes)), Roots: g.ids(g.roots), More: g.more, Dropped: g.dropped, Narrowed: g.Narrowed}
	for i := range g.nodes {
		n := &g.nodes[i]
		o := nodeOutput{ID: n.id, Kind: n.kind, Type: n.typ, Seq: n.seq, Failed: n.failed, Code: n.code, Step: n.step,
			Principal: n.principal, Wire: n.wire, Claim: n.claim, Missing: n.missing()}
		if !o.Missing {
			o.At, o.Timestamp = n.at, &n.timestamp
		}
		if took, known := g.took(n); known && n.answers {
			ms := took.Milliseconds()
			o.Duration = &ms
		}
		out.Nodes[i] = o
		if n.parent == none {
			continue
		}
		p := &g.nodes[n.parent]
		e := edgeOutput{From: p.id, To: n.id}
		if p.ambiguous || n.ambiguous {
			e.FromSeq, e.ToSeq = p.seq, n.seq
		}
		out.Edges = append(out.Edges, e)
	}
	for _, c := range g.cycles {
		out.Cycles = append(out.Cycles, g.ids(c))
	}
	return out
}

func (g *graph) ids(nodes []int) []message.ID {
	ids := make([]message.ID, len(nodes))
	for k, i := range nodes {
		ids[k] = g.nodes[i].id
	}
	return ids
}
