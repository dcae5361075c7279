package mcphost

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"kernos/capability/mcphost/client"
	"kernos/internal/jsonscan"
	"kernos/internal/mcp"
	"kernos/internal/visible"
	"kernos/kernel"
	"kernos/message"
	"kernos/schema"
)

// The members of _meta that carry what a message has and the protocol has no word for.
const (
	metaKey         = "kernos/idempotencyKey"
	metaCorrelation = "kernos/correlation"
)

// failures are the errors that every tool may give.
var failures = []kernel.ErrorDefinition{
	{Code: 500, When: "the tool has failed; the message is its own"},
	{Code: 502, When: "the MCP server can't be started, has ended, or its answer breaks the output schema"},
	{Code: 503, When: "the MCP server has failed repeatedly and is started again later, or needs credentials"},
}

// definition returns the syscall of a tool. Whatever the server claims, it is a command that acts outside
// of the kernel.
func (r *record) definition(t *tool) kernel.Definition {
	d := kernel.Definition{
		Type:         t.Type,
		Kind:         message.KindCommand,
		Summary:      fmt.Sprintf("%s, a tool of the MCP server %s.", t.Type, r.Name),
		Input:        schema.Parsed([]byte(t.Input)),
		Output:       schema.Parsed([]byte(mcp.ContentSchema)),
		Presentation: kernel.Presentation{Errors: failures},
		Behavior: kernel.Behavior{
			Runs:    kernel.Slow,
			Reaches: []kernel.Reach{kernel.ToProgram},
			Effect:  kernel.External,
			Timeout: r.timeout(),
			Repeat:  kernel.RetriedIf(t.ReadOnly || t.Idempotent),
		},
	}
	if t.Description != "" {
		d.Summary = fmt.Sprintf("From the MCP server %s: %s", r.Name, t.Description)
	}
	if t.Output != nil {
		d.Output = schema.Parsed([]byte(t.Output))
	}
	return d
}

// handler returns the handler of a tool. The tool is as the registry has it.
func (s *server) handler(t *tool) kernel.Handler {
	output := schema.Any
	if t.Output != nil {
		output = schema.Parsed([]byte(t.Output))
	}
	return func(ctx context.Context, m message.Message, emit kernel.Emit) {
		data, err := s.call(ctx, t, &m, kernel.NewStream(&m, emit))
		if err == nil && t.Output != nil {
			err = s.check(t, output, data)
		}
		if err != nil {
			kernel.Fail(ctx, m, emit, err)
			return
		}
		emit(m.Reply(data))
	}
}

// call calls a tool.
func (s *server) call(ctx context.Context, t *tool, m *message.Message, stream *kernel.Stream) (json.RawMessage, error) {
	r := client.Request{
		Method: "tools/call", Name: t.Name, Arguments: jsontext.Value(m.Data), Params: mcp.Headers(t.Mirrored, jsontext.Value(m.Data)),
		Task: t.Task, Meta: make(map[string]string),
		Progress: func(note string, fraction float64) { stream.Progress(visible.Short(note, 200), fraction) },
	}
	if m.Metadata.IdempotencyKey != "" {
		// Another Kernos keeps keys such as session/… for its own sessions and jobs.
		r.Meta[metaKey] = "mcp/" + m.Metadata.IdempotencyKey
	}
	r.Meta[metaCorrelation] = m.Caused().Correlation
	if parent := cmp.Or(mcp.Traceparent(m.Caused().Correlation, string(m.Metadata.ID)), m.Metadata.Extension(message.Traceparent)); parent != "" {
		r.Meta[mcp.MetaTrace] = parent
	}
	if state := m.Metadata.Extension(message.Tracestate); state != "" {
		r.Meta[message.Tracestate] = state
	}
	var text jsontext.Value
	err := s.use(ctx, func(conn *client.Conn) (err error) {
		if err = s.asBefore(ctx, t); err == nil {
			text, err = conn.Request(ctx, r)
		}
		return err
	})
	if err != nil {
		return nil, s.failedCall(t, err)
	}
	s.answered()
	return s.result(t, text)
}

// asBefore refuses a call of a session that was admitted while the tool had another description:
// when it is sent again, the rules of the session decide about it as it is now.
func (s *server) asBefore(ctx context.Context, t *tool) error {
	c, ok := kernel.CallOf(ctx)
	if !ok || c.Sender().Session() == "" || !t.Allowed || t.Next != nil {
		return nil
	}
	now := s.now.Load().tool(t.Name)
	switch {
	case now == nil:
		return message.Errorf(404, "The MCP server %s no longer has the tool %s", s.name, t.Name)
	case now.Next != nil:
		return message.Errorf(409, "The MCP server %s describes %s in another way than before; call it again to ask for an approval, or the owner can accept the change: kernos mcp show %s, kernos mcp allow %s", s.name, t.Type, s.name, t.Type)
	}
	return nil
}

// tool returns a tool by the name that the server has for it, or nil.
func (r *record) tool(name string) *tool {
	i := slices.IndexFunc(r.Tools, func(t tool) bool { return t.Name == name })
	if i < 0 {
		return nil
	}
	return &r.Tools[i]
}

// failedCall returns the error of a call that has no result.
func (s *server) failedCall(t *tool, err error) error {
	e, ok := errors.AsType[*client.Error](err)
	if !ok {
		return s.explain(err)
	}
	s.answered()
	code := 502
	switch e.Code {
	case mcp.InvalidParams:
		code = 422
	case mcp.MethodNotFound:
		code = 404
	}
	return message.Errorf(code, "The MCP server %s has refused %s: %s", s.name, t.Type, visible.Short(e.Message, 1000))
}

// result turns the result of a tool into the data of a reply: the structured content of a tool that
// has an output schema, or else the content as it is.
func (s *server) result(t *tool, text jsontext.Value) (json.RawMessage, error) {
	var scan jsonscan.Scanner
	if err := scan.Text(text); err != nil {
		return nil, message.Errorf(502, "The MCP server %s has answered %s with what can't be passed on: %v", s.name, t.Type, err)
	}
	var of struct {
		Content    []jsontext.Value `json:"content"`
		Structured jsontext.Value   `json:"structuredContent,omitzero"`
		Failed     bool             `json:"isError"`
	}
	if err := jsonv2.Unmarshal(text, &of); err != nil {
		return nil, message.Errorf(502, "The MCP server %s has answered %s with what isn't the result of a tool", s.name, t.Type)
	}
	switch {
	case of.Failed:
		return nil, s.toolError(t, of.Content)
	case t.Output != nil && of.Structured == nil:
		return nil, message.Errorf(502, "The MCP server %s has answered %s without the structured content that its output schema promises", s.name, t.Type)
	case t.Output != nil:
		return json.RawMessage(of.Structured), nil
	}
	if of.Content == nil {
		of.Content = []jsontext.Value{}
	}
	data, err := jsonv2.Marshal(struct {
		Content    []jsontext.Value `json:"content"`
		Structured jsontext.Value   `json:"structuredContent,omitzero"`
	}{of.Content, of.Structured})
	return data, err
}

// toolError returns the error of a tool that has failed. One that another kernel has written is passed on
// with its code.
func (s *server) toolError(t *tool, content []jsontext.Value) error {
	for _, block := range content {
		var b struct {
			Type string `json:"type"`
			Text string `json:"text"`
		}
		if jsonv2.Unmarshal(block, &b) == nil && b.Type == "text" && b.Text != "" {
			var scan jsonscan.Scanner
			if scan.Text([]byte(b.Text)) == nil {
				if e, err := message.ParseError(json.RawMessage(b.Text)); err == nil {
					return e
				}
			}
			return message.Errorf(500, "%s has failed: %s", t.Type, visible.Short(b.Text, 2000))
		}
	}
	return message.Errorf(500, "%s has failed without a reason", t.Type)
}

// check returns the error for a result that the output schema of a tool doesn't allow.
func (s *server) check(t *tool, output *schema.Schema, data json.RawMessage) error {
	err := output.Validate(data)
	if err == nil {
		return nil
	}
	return kernel.InvalidOutput(err, "The MCP server %s has answered %s with what its output schema doesn't allow", s.name, t.Type)
}

// fill answers the form of a server with the defaults of its fields. It reports whether that is an
// answer: each field that is required has one, and a form without any is just confirmed.
func fill(form jsontext.Value) (jsontext.Value, bool) {
	var of struct {
		Properties map[string]struct {
			Default jsontext.Value `json:"default"`
		} `json:"properties"`
		Required []string `json:"required"`
	}
	if jsonv2.Unmarshal(form, &of) != nil {
		return nil, false
	}
	content := make(map[string]jsontext.Value)
	for name, field := range of.Properties {
		if field.Default != nil {
			content[name] = field.Default
		}
	}
	for _, name := range of.Required {
		if content[name] == nil {
			return nil, false
		}
	}
	text, err := jsonv2.Marshal(content, jsonv2.Deterministic(true))
	return text, err == nil
}
