package history

import (
	"context"
	"encoding/json"

	"kernos/internal/jsonscan"
	"kernos/journal"
	"kernos/kernel"
	"kernos/message"
	"kernos/schema"
)

type graphInput struct {
	CorrelationID string `json:"correlationId" jsonschema:"minLength=1,maxLength=256" jsonschema_description:"The workflow: metadata.correlation of its messages, or the id of the message that began it."`
	Format        string `json:"format,omitempty" jsonschema:"enum=mermaid,enum=json,enum=dot,enum=tree,default=mermaid" jsonschema_description:"mermaid for a Mermaid flowchart, json for nodes and edges, dot for Graphviz, tree for text with a line a message."`
}

// graphOutput is written by hand since it has two forms. Its Gap is the schema of gap.
const graphOutput = `{"oneOf":[
{"type":"string","description":"The graph as text, in the format that was asked for: mermaid, dot or tree."},
{"type":"object","description":"The graph as nodes and edges, if the format is json.","properties":{
"nodes":{"type":"array","description":"The messages, in the order of the journal; those that are missing come last.","items":{"type":"object","properties":{
"id":{"type":"string","description":"The message's id."},
"kind":{"type":"string","description":"Its kind."},
"type":{"type":"string","description":"Its type."},
"seq":{"type":"integer","description":"Its number in the journal."},
"timestamp":{"type":"integer","description":"When it was sent, in milliseconds since 1970."},
"duration":{"type":"integer","description":"Of an answer: how long it took, in milliseconds."},
"failed":{"type":"boolean","description":"It is an error, or an error answers it."},
"code":{"type":"integer","description":"The code of the error."},
"missing":{"type":"boolean","description":"A message names it as its cause, and it is not part of the workflow in the journal."}},
"required":["id"],"additionalProperties":false}},
"edges":{"type":"array","description":"Causes and effects.","items":{"type":"object","properties":{
"from":{"type":"string","description":"The id of the cause."},
"to":{"type":"string","description":"The id of the effect."},
"fromSeq":{"type":"integer","description":"The number of the cause, where an id is not one message's alone."},
"toSeq":{"type":"integer","description":"The number of the effect, where an id is not one message's alone."}},
"required":["from","to"],"additionalProperties":false}},
"roots":{"type":"array","description":"Ids of the messages that the workflow begins with.","items":{"type":"string"}},
"cycles":{"type":"array","description":"Ids of messages that name each other as their cause, in a circle. The oldest of each is a root.","items":{"type":"array","items":{"type":"string"}}},
"more":{"type":"boolean","description":"The workflow has more messages than a graph shows."},
"dropped":{"$ref":"#/$defs/Gap","description":"What is not in the journal and might have been part of the workflow."}},
"required":["nodes","edges","roots"],"additionalProperties":false}],
"$defs":{"Gap":{"type":"object","properties":{
"messages":{"type":"integer","description":"How many messages were dropped because of their age or of the journal's size: its oldest."},
"until":{"type":"integer","description":"When the last of them was recorded, in milliseconds since 1970."},
"why":{"type":"string","description":"What the last ones were dropped for: age or bytes."},
"lost":{"type":"integer","description":"How many messages were never recorded, because the store did not take them."},
"lostSince":{"type":"integer","description":"When the first of those came."},
"lostUntil":{"type":"integer","description":"When the last of those came."}},
"required":["messages"],"additionalProperties":false}}}`

// MaxNodes is how many messages a graph shows.
const MaxNodes = 50_000

// Graph draws a workflow.
func Graph(j Journal) kernel.Syscall {
	return recalling(kernel.Definition{
		Type:    "Message.Graph",
		Summary: "Draw the messages of a workflow as a graph of causes and effects.",
		Output:  schema.Written(graphOutput),
		Aliases: []message.Type{"Event.Graph"},
	}, func(ctx context.Context, _ *message.Message, in graphInput, _ kernel.Emit) (json.RawMessage, error) {
		nodes, more, err := readNodes(ctx, j, in.CorrelationID, MaxNodes)
		if err != nil {
			return nil, err
		}
		if len(nodes) == 0 {
			return nil, noWorkflow(ctx, j, in.CorrelationID)
		}
		g := newGraph(nodes)
		g.more = more
		if g.dropped, err = findGap(j, 0, 0); err != nil {
			return nil, err
		}
		return g.draw(in.Format), nil
	})
}

// Draw is Graph for who has the messages of a workflow already, in the order of the journal,
// and knows what is missing there. Only errors need their data. More says that the workflow
// goes on. It returns what Message.Graph would answer.
func Draw(entries []journal.Entry, more bool, dropped journal.Dropped, format string) json.RawMessage {
	nodes := make([]node, len(entries))
	for i := range entries {
		nodes[i] = newNode(&entries[i])
	}
	g := newGraph(nodes)
	g.more, g.dropped = more, gapOf(&dropped, 0, 0)
	return g.draw(format)
}

// draw writes the graph as an answer.
func (g *graph) draw(format string) json.RawMessage {
	var text []byte
	switch format {
	case "json":
		return g.json()
	case "dot":
		text = g.dot()
	case "tree":
		text = g.tree()
	default:
		text = g.mermaid()
	}
	return jsonscan.AppendQuoted(make([]byte, 0, len(text)+len(text)/8), string(text))
}

// readNodes reads the messages of a workflow without their data.
func readNodes(ctx context.Context, j Journal, correlation string, most int) (nodes []node, more bool, err error) {
	for e, err := range workflowInBrief(ctx, j, correlation) {
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
	}
	if m.Kind == message.KindError {
		if failure, err := message.ParseError(m.Data); err == nil {
			n.code, n.text = failure.Code, cutText(failure.Message, maxTreeText)
		}
	}
	return n
}
