package history

import (
	"context"

	"kernos/internal/jsonscan"
	"kernos/journal"
	"kernos/kernel"
	"kernos/message"
	"kernos/schema"
)

type graphInput struct {
	chosen
	Format string `json:"format,omitempty" jsonschema:"enum=mermaid,enum=json,enum=dot,enum=tree,default=mermaid" jsonschema_description:"mermaid: a Mermaid flowchart; json: nodes and edges; dot: Graphviz; tree: text with one line per message."`
}

// maxNodes is how many messages a graph shows.
const maxNodes = 50_000

var graphDefinition = kernel.DefineQuery[graphInput, kernel.Raw](kernel.Definition{
	Type:      "Message.Graph",
	Errors:    []kernel.ErrorDefinition{{Code: 404, When: "no recorded message belongs to the workflow"}},
	Summary:   "Draw the messages of a workflow as a graph of causes and effects.",
	Input:     schema.Input[graphInput]().Example(`{"correlation":"req-7"}`),
	Output:    schema.Output[graphOutput]().Or(`{"type":"string","description":"The graph as text, in the format that was asked for: mermaid, dot or tree."}`),
	Aliases:   []message.Type{"Event.Graph"},
	Answers:   kernel.FromJournal,
	Recording: kernel.InWorkflows,
})

// graph draws a workflow.
func (r reader) graph(ctx context.Context, in graphInput) (kernel.Raw, error) {
	name, err := r.workflowOf(ctx, in.correlation())
	if err != nil {
		return nil, err
	}
	nodes, more, err := r.readNodes(ctx, name, maxNodes)
	if err != nil {
		return nil, err
	}
	if len(nodes) == 0 {
		return nil, r.noWorkflow(ctx, name)
	}
	g := newGraph(nodes)
	g.more = more
	if g.dropped, err = r.gap(0, 0); err != nil {
		return nil, err
	}
	return g.draw(in.Format)
}

// draw writes the graph as an answer.
func (g *graph) draw(format string) (kernel.Raw, error) {
	var text []byte
	switch format {
	case "json":
		return g.json()
	case "dot":
		text = g.chart(&graphviz)
	case "tree":
		text = g.tree()
	default:
		text = g.chart(&mermaid)
	}
	return jsonscan.AppendQuoted(make([]byte, 0, len(text)+len(text)/8), string(text)), nil
}

// readNodes reads the messages of a workflow without their data.
func (r reader) readNodes(ctx context.Context, correlation string, most int) (nodes []node, more bool, err error) {
	for e, err := range r.workflow(ctx, correlation, true) {
		if err != nil {
			return nil, false, err
		}
		if len(nodes) == most {
			return nodes, true, nil
		}
		nodes = append(nodes, newNode(e))
	}
	return nodes, false, nil
}

func newNode(e *journal.Entry) node {
	m := &e.Message
	n := node{
		seq:       e.Seq,
		at:        e.At,
		timestamp: m.Metadata.Timestamp,
		kind:      m.Kind,
		typ:       m.Type,
		id:        m.Metadata.ID,
		causation: m.Metadata.Causation,
		principal: e.Name,
		wire:      e.Wire,
		claim:     e.Claim,
	}
	if m.Kind == message.KindError {
		if failure, err := message.ParseError(m.Data); err == nil {
			n.code, n.text = failure.Code, cutText(failure.Message, maxTreeText)
		}
	}
	return n
}
