package mcp

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"kernos/internal/jsonscan"
	"kernos/internal/jsonvalue"
	"kernos/internal/mcp"
	"kernos/internal/nearest"
	"kernos/kernel"
	"kernos/kernel/principal"
	"kernos/message"
	"kernos/store/blobs"
	"kernos/transport/mcp/jsonrpc"
	"kernos/transport/rpc"
)

// The members of _meta that a message of the kernel has.
const (
	metaIdempotencyKey = "kernos/idempotencyKey"
	metaCorrelation    = "kernos/correlation"
	metaCausation      = "kernos/causation"
	metaMessage        = "kernos/message" // in a result: the id of the message that made the call
)

// callTool answers tools/call: it makes a message of the request, and the answers to the message make
// the result.
func callTool(x *exchange) {
	if x.resume() {
		return
	}
	name, bad := x.text("name")
	if bad != nil {
		x.fail(bad)
		return
	}
	data := jsonscan.Member(x.Params, "arguments")
	caller := kernel.SenderIn(x.ctx).Principal()
	set, _ := x.s.toolsOf(caller)
	t, ok := set.byName[name]
	if !ok { // the kernel reports why the caller may not call it
		all, _ := x.s.toolsOf(principal.TheOwner())
		if t, ok = all.byName[name]; !ok {
			x.refuse(kernel.TypeOf(name), jsonrpc.Invalid(set.unknown(name, x.s.k, caller)))
			return
		}
	}
	if len(data) == 0 || string(data) == "null" {
		data = emptyObject
	}
	if data[0] != '{' {
		x.refuse(t.syscall.Type, jsonrpc.Invalid("Invalid params: arguments must be an object"))
		return
	}
	data, note := x.s.k.Meant(t.syscall.Type, data)
	if t.syscall.Type == kernel.ThroughType {
		inner := ""
		if data, inner = x.s.k.Meant(t.syscall.Type, set.through(data)); inner != "" {
			note = strings.TrimPrefix(note+"; "+inner, "; ")
		}
	}
	if x.header != nil && !t.agrees(x.header, data) {
		x.refuse(t.syscall.Type, mismatch("the headers "+mcp.HeaderParam+"* must repeat the parameters that the tool's schema marks with x-mcp-header"))
		return
	}
	if t.wraps {
		if data = jsonscan.Member(data, "data"); data == nil {
			data = json.RawMessage("null")
		}
	}
	data = blobs.RemoteOf(x.ctx).Inward(data)
	m := message.Message{Kind: t.syscall.Kind, Type: t.syscall.Type, Data: data}
	if t.syscall.Effect == kernel.Delegated {
		m.Kind = message.KindCommand // its nested calls may change something
	}
	support := x.s.taskSupport(m.Type)
	if support == TaskRequired && !x.client.tasks() {
		x.refuse(t.syscall.Type, needsTasks())
		return
	}
	x.replied = support == TaskReplied && x.client.tasks()
	if (support == TaskOptional || support == TaskRequired) && x.client.tasks() {
		m, x.replied = asJob(m.Type, data), true
	}
	if wrong := x.describe(&m); wrong != "" {
		x.refuse(t.syscall.Type, jsonrpc.Invalid("Invalid params: "+wrong))
		return
	}
	kernel.Noted(&m, note)
	x.s.k.Stamp(&m)
	x.tool, x.data = t, data
	x.session.calls(x, m.Metadata.ID)
	if x.replied {
		x.s.opts.Tasks.expect(x.asked)
	}
	x.run(m, x.emit)
}

// refuse answers a call of a tool, or a request that stands for a call, that doesn't become a message, and records it.
func (x *exchange) refuse(t message.Type, f *jsonrpc.Failure) {
	m := message.Message{Kind: message.KindQuery, Type: t, Data: emptyObject}
	if s, ok := x.s.k.Registry().Lookup(t); ok {
		m.Kind = s.Kind
	}
	x.s.k.RecordRefused(&m, kernel.SenderIn(x.ctx), &message.Error{Code: 422, Message: f.Text})
	if err := x.s.k.AwaitFence(x.ctx); err != nil {
		f = x.failedCall(err)
	}
	x.fail(f)
}

// through returns the arguments of [kernel.ThroughType] as the kernel takes them. Models name the tool in place
// of the syscall, and since the schema can't describe what data is, many write the object as a text.
func (t *toolset) through(arguments []byte) []byte {
	name, data := jsonscan.Unquote(jsonscan.Member(arguments, "type")), jsonscan.Member(arguments, "data")
	inner := t.byName[name]
	if inner == nil || name == string(inner.syscall.Type) && (len(data) == 0 || data[0] != '"') {
		return arguments
	}
	all := jsonvalue.Members(arguments).Set("type", jsonscan.AppendQuoted(nil, string(inner.syscall.Type)))
	if len(data) > 0 && data[0] == '"' && inner.syscall.Input.Validate(data) != nil {
		var scan jsonscan.Scanner
		if text := bytes.TrimSpace(jsonscan.Content(data)); len(text) > 0 && text[0] == '{' && scan.Text(text) == nil {
			all = all.Set("data", text)
		}
	}
	return all.Text()
}

// describe sets the metadata of a message from _meta. If _meta is invalid, it returns why.
func (x *exchange) describe(m *message.Message) (wrong string) {
	if x.Frame.Meta == nil {
		return ""
	}
	d := &m.Metadata
	text := func(name string, value []byte) string {
		if value[0] != '"' && value[0] != 'n' { // null says that it is absent
			wrong = "_meta: " + name + " must be a text"
		}
		return jsonscan.Unquote(value)
	}
	jsonscan.Members(x.Frame.Meta, 0, func(name, value []byte) bool {
		switch string(jsonscan.Content(name)) {
		case metaIdempotencyKey:
			d.IdempotencyKey = text(metaIdempotencyKey, value)
		case metaCorrelation:
			d.Correlation = text(metaCorrelation, value)
		case metaCausation:
			d.Causation = message.ID(text(metaCausation, value))
		case mcp.MetaTrace: // the trace is the workflow, unless the request names another one
			if trace := text(mcp.MetaTrace, value); d.Correlation == "" {
				d.Correlation = mcp.Trace(trace)
			}
		}
		return wrong == ""
	})
	d.Keep(x.Frame.Meta)
	if wrong != "" || *d == (message.Metadata{}) {
		return wrong
	}
	about := message.Message{Kind: message.KindQuery, Type: message.Ping, Data: emptyObject, Metadata: *d}
	x.s.k.Stamp(&about)
	if err := about.Validate(); err != nil {
		return "_meta: " + err.Error()
	}
	return ""
}

// unknown returns the text for a tool that isn't there. It names those that were probably meant, or what else the caller may need.
func (t *toolset) unknown(name string, k *kernel.Kernel, caller *principal.Principal) string {
	names := make([]string, len(t.tools))
	for i, one := range t.tools {
		names[i] = one.name
	}
	text, called := "Unknown tool: "+message.Clip(name, 100), message.Type(strings.Replace(name, "_", ".", 1))
	if why := k.Absent(called, caller); why != "" {
		text += "; " + why
	} else if near := nearest.Names(name, names); len(near) > 0 {
		text += "; did you mean " + strings.Join(near, " or ") + "?"
	} else if other := k.Instead(called, caller); other != "" {
		text += "; " + other
	} else {
		text += "; Syscall_Search finds tools by words, and Syscall_Register adds one"
	}
	return text
}

// emit takes the kernel's messages about the call of a tool. It has the type [kernel.Emit].
func (x *exchange) emit(m message.Message) {
	if m.Kind == message.KindEvent {
		x.event(m)
		return
	}
	whole := m
	var large []kernel.Moved
	shown := m.Data
	if m.Kind == message.KindReply {
		m, shown, large = x.shorten(m)
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.paused {
		kept := whole
		kept.Data = bytes.Clone(whole.Data)
		x.outcome = &kept
		return
	}
	lacks := x.lacks
	x.meta = jsonscan.AppendQuoted(append(make([]byte, 0, 96), `"`+metaMessage+`":`...), string(x.asked))
	if c := m.Metadata.Correlation; c != "" {
		x.meta = jsonscan.AppendQuoted(append(x.meta, `,"`+metaCorrelation+`":`...), c)
	}
	if m.Metadata.Extra != "" {
		x.meta = append(append(x.meta, ','), m.Metadata.Extra...)
	}
	switch {
	case lacks != nil && m.Kind == message.KindError:
		x.send(nil, lacks)
	case m.Kind == message.KindError:
		x.sendResult(append(x.beginResult(resultComplete, 0), x.failed(m)...))
	case x.replied && jsonscan.Unquote(jsonscan.Member(m.Data, "jobId")) != "":
		x.sendTask(jsonscan.Unquote(jsonscan.Member(m.Data, "jobId")))
	case x.tool.content && len(jsonscan.Member(m.Data, "content")) > 0:
		body := jsonscan.AppendCompact(nil, m.Data)
		x.sendResult(append(x.beginResult(resultComplete, len(body)), body[1:len(body)-1]...))
	default:
		x.sendResult(x.appendResult(x.beginResult(resultComplete, 2*len(shown)), shown, m.Data, large, m.Metadata.Extension(kernel.Note)))
	}
}

// text returns a parameter of the request that must be a text.
func (x *exchange) text(parameter string) (string, *jsonrpc.Failure) {
	value := jsonscan.Member(x.Params, parameter)
	if len(value) == 0 || value[0] != '"' {
		return "", jsonrpc.Invalid("Invalid params: " + parameter + " must be a text")
	}
	return jsonscan.Unquote(value), nil
}

// called returns the syscall that the client means, its name and its data: that which it has called, or calls through
// [kernel.ThroughType].
func (x *exchange) called() (s *kernel.Syscall, name string, data json.RawMessage) {
	s, name, data = x.tool.syscall, x.tool.name, x.data
	if s.Type != kernel.ThroughType || s.Input.Validate(data) != nil {
		return s, name, data
	}
	set, _ := x.s.toolsOf(kernel.SenderIn(x.ctx).Principal())
	inner := set.byName[jsonscan.Unquote(jsonscan.Member(data, "type"))]
	if inner == nil {
		return s, name, data
	}
	if data = jsonscan.Member(data, "data"); data == nil {
		data = emptyObject
	}
	return inner.syscall, string(inner.syscall.Type), data
}

// failed returns the members of the result of a call that has failed: the error, and what to do about it.
func (x *exchange) failed(m message.Message) []byte {
	e := m.Failure()
	body := json.RawMessage(e.Append(nil))
	about, name, data := x.called()
	if guidance := rpc.Guide(&about.Definition, name, data, e); guidance != nil && about.Wrong(data) != nil {
		body = jsonvalue.Members(body).Set("guidance", guidance).Text()
	}
	return appendError(nil, body)
}

// event passes an event on to the client: as progress if it has asked for that, and else a log message if it wants those.
func (x *exchange) event(m message.Message) {
	x.approval(&m)
	meta, c := x.latest()
	if m.Type == kernel.Progressed {
		x.progress(meta, jsonscan.Member(m.Data, "percentage"), jsonscan.Member(m.Data, "message"))
		return
	}
	level := "info"
	if m.Type == kernel.ErrorOccurred || m.Type == kernel.DeprecatedEvent {
		level = "warning"
	}
	if c.logs(level, meta) {
		x.log(level, string(m.Type), m.Data)
	}
}

// progress notifies the client how far the call is, if the _meta of its request asks for that. The note is a JSON string, or nil.
func (x *exchange) progress(meta, fraction, note []byte) {
	token := jsonscan.Member(meta, "progressToken")
	if token == nil {
		return
	}
	if fraction == nil {
		fraction = []byte("0")
	}
	x.notify("notifications/progress", jsonvalue.Marshal(struct {
		Token    jsontext.Value `json:"progressToken"`
		Progress jsontext.Value `json:"progress"`
		Total    int            `json:"total"`
		Message  jsontext.Value `json:"message,omitzero"`
	}{token, fraction, 1, note}))
}
