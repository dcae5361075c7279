package history

import (
	"context"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"kernos/internal/jsonscan"
	"kernos/journal"
	"kernos/kernel"
	"kernos/message"
	"kernos/schema"
)

type graphInput struct {
	chosen
	Principal jsontext.Value `json:"principal,omitempty" jsonschema:"oneof_type=string;array" jsonschema_description:"Only messages that acted for this caller: owner, or the name or id of a token. Several: a list of those, or one text with commas."`
	Format    string         `json:"format,omitempty" jsonschema:"enum=mermaid,enum=json,enum=dot,enum=tree,default=mermaid" jsonschema_description:"mermaid: a Mermaid flowchart; json: nodes and edges; dot: Graphviz; tree: text with one line per message."`
}

// maxNodes is how many messages a graph shows.
const maxNodes = 50_000

var graphDefinition = kernel.DefineQuery[graphInput, kernel.Raw](kernel.Definition{
	Type:    "Message.Graph",
	Summary: "Draw the messages of a workflow as a graph of causes and effects.",
	Input:   schema.Input[graphInput]().Example(`{"correlation":"req-7"}`),
	Output:  schema.Output[graphOutput]().Or(`{"type":"string","description":"The graph as text, in the format that was asked for: mermaid, dot or tree."}`),
	Presentation: kernel.Presentation{
		Title: "Draw a workflow",
		Words: "diagram, trace, audit, tree, what caused what, why something failed, root cause, what led to this, why did this happen, chain of calls, " +
			"which call triggered which, picture of a workflow, visualize a run, steps of a workflow, trace an error to its cause",
		Errors:  []kernel.ErrorDefinition{{Code: 404, When: "no recorded message belongs to the workflow"}},
		Aliases: []message.Type{"Event.Graph"},
	},
	Journaled: kernel.Journaled{Answers: kernel.FromJournal, Recording: kernel.InWorkflows},
})

// graph draws a workflow.
func (r reader) graph(ctx context.Context, in graphInput) (kernel.Raw, error) {
	name, err := r.workflowOf(ctx, in.correlation())
	if err != nil {
		return nil, err
	}
	var of []string
	if err := readPrincipals(in.Principal, &of); err != nil {
		return nil, err
	}
	nodes, more, err := r.readNodes(ctx, name, of, maxNodes)
	if err != nil {
		return nil, err
	}
	if len(nodes) == 0 && len(of) > 0 {
		return nil, message.Errorf(404, "Workflow not found: %s has no messages that acted for %s; leave out principal to draw all of it", name, message.Clip(strings.Join(of, ", "), 100))
	}
	if len(nodes) == 0 {
		return nil, r.noWorkflow(ctx, name)
	}
	g := newGraph(nodes)
	g.more, g.Narrowed = more, narrowed(ctx)
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

// readNodes reads the messages of a workflow without their data: those that acted for some
// principals, or all.
func (r reader) readNodes(ctx context.Context, correlation string, principals []string, most int) (nodes []node, more bool, err error) {
	for e, err := range r.workflow(ctx, journal.Filter{Correlation: correlation, Principals: principals}, true) {
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
		step:      m.Metadata.Extension(message.Step),
	}
	if m.Kind == message.KindError {
		if failure, err := message.ParseError(m.Data); err == nil {
			n.code, n.text = failure.Code, truncate(failure.Message, maxTreeText)
		}
	}
	return n
}
