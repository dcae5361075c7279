package session

import (
	"context"
	"encoding/base64"
	stdjson "encoding/json"
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/oklog/ulid/v2"

	"kernos/internal/jsonscan"
	"kernos/internal/jsonvalue"
	"kernos/kernel"
	"kernos/message"
	"kernos/schema"
	"kernos/store"
)

// The types of messages that the kernel gives a meaning.
const (
	typeInput    = "input"
	typeReply    = "reply"
	typeThought  = "reasoning"
	typeCalls    = "tool-calls"
	typeResults  = "tool-results"
	typeSystem   = "system"
	typeRequest  = "approval-request"
	typeResponse = "approval-response"
	typeSummary  = "summary"
	typeLog      = "log"
)

// kernelTypes are the types whose members are those of Message.
var kernelTypes = map[string]bool{
	typeInput: true, typeReply: true, typeThought: true, typeCalls: true, typeResults: true,
	typeSystem: true, typeRequest: true, typeResponse: true, typeSummary: true, typeLog: true,
}

// A Message is one cognitive message. Those that a type doesn't have are left out.
type Message struct {
	ID        string `json:"id"`
	Seq       uint64 `json:"seq,omitzero"`
	Parent    uint64 `json:"parent,omitzero"` // the seq of the message that it follows
	Timestamp int64  `json:"timestamp"`
	Type      string `json:"type"`
	Turn      string `json:"turn,omitzero"`
	Partial   bool   `json:"partial,omitzero"` // a cancel has cut the message off

	Text       *string              `json:"text,omitzero"`
	TextRef    *message.BlobPointer `json:"textRef,omitzero"`
	Files      []File               `json:"files,omitzero"`
	Title      *string              `json:"title,omitzero"`
	Summary    *string              `json:"summary,omitzero"`
	SummaryRef *message.BlobPointer `json:"summaryRef,omitzero"`
	Model      string               `json:"model,omitzero"`  // the model that has made the message
	Opaque     jsontext.Value       `json:"opaque,omitzero"` // data that only that model understands
	Calls      []Call               `json:"calls,omitzero"`
	Results    []Result             `json:"results,omitzero"`
	Covers     uint64               `json:"covers,omitzero"` // a summary stands for the messages up to this seq

	*Approval
	Extra jsontext.Value `json:",embed"` // the members of registered types
}

// UnmarshalJSON implements json.Unmarshaler. The members of a registered type mean what its schema describes,
// whatever members of that name mean elsewhere: only a text is the kernel's, which may move it to a blob.
func (m *Message) UnmarshalJSON(text []byte) error {
	type plain Message
	if t := jsonscan.Unquote(jsonscan.Member(text, "type")); kernelTypes[t] {
		return json.Unmarshal(text, (*plain)(m))
	}
	var own struct {
		ID        string               `json:"id"`
		Seq       uint64               `json:"seq"`
		Parent    uint64               `json:"parent"`
		Timestamp int64                `json:"timestamp"`
		Type      string               `json:"type"`
		Turn      string               `json:"turn"`
		Partial   bool                 `json:"partial"`
		Text      *string              `json:"text"`
		TextRef   *message.BlobPointer `json:"textRef"`
		Extra     jsontext.Value       `json:",embed"`
	}
	err := json.Unmarshal(text, &own)
	*m = Message{
		ID: own.ID, Seq: own.Seq, Parent: own.Parent, Timestamp: own.Timestamp, Type: own.Type, Turn: own.Turn, Partial: own.Partial,
		Text: own.Text, TextRef: own.TextRef, Extra: own.Extra,
	}
	return err
}

// A File is attached to an input.
type File struct {
	Data     string               `json:"data,omitzero" jsonschema_description:"Its bytes in base64."`
	DataRef  *message.BlobPointer `json:"dataRef,omitzero" jsonschema_description:"Where its bytes are, if they are many."`
	Filename string               `json:"filename,omitzero" jsonschema:"maxLength=256" jsonschema_description:"Its name."`
	MimeType string               `json:"mimeType,omitzero" jsonschema:"maxLength=128" jsonschema_description:"What it is: image/png."`
}

// A Call asks for a syscall.
type Call struct {
	ID      string               `json:"id"`
	Name    string               `json:"name"`
	Args    jsontext.Value       `json:"args,omitzero"`
	ArgsRef *message.BlobPointer `json:"argsRef,omitzero"`
}

// A Result is what a call has come to: an output or an error. Versions before 0.20 have stored null as the output of a call
// that has failed.
type Result struct {
	CallID string         `json:"callId,omitzero"`
	Name   string         `json:"name,omitzero"`
	Output jsontext.Value `json:"output,omitzero"`
	Error  jsontext.Value `json:"error,omitzero"`
}

// failed returns the result of a call that has failed.
func failed(e *message.Error) Result { return Result{Error: e.Append(nil)} }

// check returns the error for a result that a caller appends and that has an output and an error, or neither. An error of JavaScript,
// which has a name and no code, gets the code 500.
func (r *Result) check(at int) error {
	field := fmt.Sprintf("message/results/%d", at)
	none := func(v jsontext.Value) bool { return len(v) == 0 || v.Kind() == 'n' }
	switch {
	case none(r.Error) && len(r.Output) == 0:
		return invalid(field, "give an output, which may be null, or an error")
	case none(r.Error):
		r.Error = nil
		return nil
	case !none(r.Output):
		return invalid(field, "a result has an output or an error, not both; leave one out")
	}
	r.Output = nil
	if jsonscan.Member(r.Error, "code") == nil {
		r.Error = jsontext.Value(jsonvalue.Members(stdjson.RawMessage(r.Error)).Set("code", []byte("500")).Text())
	}
	return nil
}

// An Approval is the content of a request for one, and of the response to it.
type Approval struct {
	CallID   string           `json:"call"`
	Name     message.Type     `json:"name,omitzero"` // the syscall that is finally run
	Args     jsontext.Value   `json:"args,omitzero"`
	Hash     string           `json:"hash,omitzero"`    // hash of name and args
	Rule     string           `json:"rule,omitzero"`    // the rule that has asked
	Reached  []kernel.Reached `json:"reached,omitzero"` // what the call is about to reach besides what it is there for
	Decision string           `json:"decision,omitzero"`
	Remember string           `json:"remember,omitzero"`
	Reason   string           `json:"reason,omitzero"`
	By       string           `json:"by,omitzero"` // the principal that has decided
}

// The schemas of what Session.Append takes, beside the members that every message has.
const (
	pointerSchema = `{"type":"object","required":["scheme","path"],"properties":{"scheme":{"enum":["file","https","data"]},"path":{"type":"string"}}}`
	textSchema    = `{"type":"object","required":["text"],"properties":{"text":{"type":"string"}}}`
	errorSchema   = `{"type":["object","null"],"required":["message"],"anyOf":[{"type":"null"},{"required":["code"]},{"required":["name"]}],"properties":{"code":{"type":"integer"},"name":{"type":"string"},"message":{"type":"string"}}}`
)

var builtIn = map[string]*schema.Schema{
	typeInput:   schema.Written(`{"type":"object","anyOf":[{"required":["text"]},{"required":["files"]}],"properties":{"text":{"type":"string"},"files":{"type":"array","minItems":1,"maxItems":64,"items":{"type":"object","anyOf":[{"required":["data"]},{"required":["dataRef"]}],"properties":{"data":{"type":"string"},"dataRef":` + pointerSchema + `,"filename":{"type":"string"},"mimeType":{"type":"string"}}}}}}`),
	typeReply:   schema.Written(textSchema),
	typeThought: schema.Written(`{"type":"object","required":["title","summary"],"properties":{"title":{"type":"string"},"summary":{"type":"string"}}}`),
	typeCalls:   schema.Written(`{"type":"object","required":["calls"],"properties":{"calls":{"type":"array","minItems":1,"maxItems":256,"items":{"type":"object","required":["id","name"],"properties":{"id":{"type":"string","minLength":1,"maxLength":128},"name":{"type":"string","minLength":1,"maxLength":256}}}}}}`),
	typeResults: schema.Written(`{"type":"object","required":["results"],"properties":{"results":{"type":"array","minItems":1,"maxItems":256,"items":{"type":"object","properties":{"callId":{"type":"string","maxLength":128},"name":{"type":"string","maxLength":256},"error":` + errorSchema + `}}}}}`),
	typeLog:     schema.Written(textSchema),
}

type defineTypeInput struct {
	Type   string         `json:"type" jsonschema:"pattern=^[a-z][a-z0-9-]*$,maxLength=64" jsonschema_description:"The type of messages: lower case, digits and hyphens."`
	Schema jsontext.Value `json:"schema" jsonschema:"type=object" jsonschema_description:"The JSON Schema that messages of this type fit."`
}

type defineTypeOutput struct {
	Type string `json:"type" jsonschema_description:"The type, which Session.Append takes from now on."`
}

var defineType = kernel.DefineCommand[defineTypeInput, defineTypeOutput](kernel.Definition{
	Type:    "Session.DefineType",
	Summary: "Register a type of messages: they are validated, kept and streamed like the others.",
	Input:   schema.Input[defineTypeInput]().Example(`{"type":"mood","schema":{"type":"object","required":["feeling"]}}`),
	Presentation: kernel.Presentation{
		Title:  "Define a type of messages",
		Words:  "custom message, schema of a message, own kind of message, new type of chat message, add a message type, structured messages in a chat",
		Result: "Defined {type}",
		Errors: []kernel.ErrorDefinition{
			{Code: 403, When: "the type is the kernel's"},
			{Code: 409, When: "another caller has registered the type"},
			{Code: 422, When: "it isn't a JSON Schema"},
		},
	},
})

// A definition is a registered type as it is stored.
type definition struct {
	Principal string         `json:"principal"`
	Schema    jsontext.Value `json:"schema"`
}

func (x *Sessions) defineType(ctx context.Context, in defineTypeInput) (out defineTypeOutput, err error) {
	if kernelTypes[in.Type] {
		return out, message.Errorf(403, "The message type %s is the kernel's; choose another name", in.Type)
	}
	if _, err := schema.Parse([]byte(in.Schema)); err != nil {
		return out, invalid("schema", "%v", err)
	}
	who := kernel.PrincipalOf(ctx)
	at := key(keyType, in.Type)
	e, err := x.opts.Store.Get(at)
	if err != nil {
		return out, err
	}
	var was definition
	if e.Revision != 0 {
		if err := json.Unmarshal(e.Value, &was); err != nil {
			return out, err
		}
		if was.Principal != string(who.ID()) && !who.IsOwner() {
			return out, message.Errorf(409, "The message type %s was registered by another caller; choose another name", in.Type)
		}
	}
	var b store.Batch
	b.IfRevision(at, e.Revision)
	b.Set(at, jsonvalue.Marshal(definition{string(who.ID()), in.Schema}))
	return defineTypeOutput{in.Type}, kernel.Stage(ctx, &b)
}

// schemaOf returns the schema of a type, or a 422.
func (x *Sessions) schemaOf(t string) (*schema.Schema, error) {
	if s := builtIn[t]; s != nil {
		return s, nil
	}
	e, err := x.opts.Store.Get(key(keyType, t))
	if err != nil {
		return nil, err
	}
	if e.Revision == 0 {
		return nil, invalid("message/type", "the type %q isn't known; Session.DefineType registers one", message.Clip(t, 64))
	}
	var d definition
	if err := json.Unmarshal(e.Value, &d); err != nil {
		return nil, err
	}
	return x.parsed(d.Schema)
}

const (
	// maxInline is how many bytes of a text, a file or a result stay in a message: with more, it
	// would not fit into a line.
	maxInline = 4096

	// maxMessage is how many bytes a message may have.
	maxMessage = 14_000

	// maxBeginning is how many bytes a model is shown of a result that is in a blob.
	maxBeginning = 4000
)

// shrink moves what is too large for a message to blobs. Files whose data can't be read are a 422.
func (x *Sessions) shrink(ctx context.Context, m *Message) error {
	put := func(data []byte) (*message.BlobPointer, error) {
		p, err := x.opts.Blobs.Put(ctx, data)
		return &p, err
	}
	for i := range m.Files {
		f := &m.Files[i]
		if f.Data == "" && f.DataRef == nil {
			return invalid("files", "the file %d has neither data nor dataRef, or it is empty", i)
		}
		data, err := base64.StdEncoding.DecodeString(f.Data)
		if err != nil {
			return invalid("files", "data of the file %d isn't base64: %v", i, err)
		}
		if len(f.Data) <= maxInline || x.opts.Blobs == nil {
			continue
		}
		if f.DataRef, err = put(data); err != nil {
			return err
		}
		f.Data = ""
	}
	if x.opts.Blobs == nil || len(jsonvalue.Marshal(m)) <= maxMessage {
		return nil
	}
	var err error
	if m.Text != nil && len(*m.Text) > maxInline {
		if m.TextRef, err = put([]byte(*m.Text)); err != nil {
			return err
		}
		m.Text = nil
	}
	if m.Summary != nil && len(*m.Summary) > maxInline {
		if m.SummaryRef, err = put([]byte(*m.Summary)); err != nil {
			return err
		}
		m.Summary = nil
	}
	for i := range m.Calls {
		if c := &m.Calls[i]; len(c.Args) > maxInline/len(m.Calls) {
			if c.ArgsRef, err = put(c.Args); err != nil {
				return err
			}
			c.Args = nil
		}
	}
	for i := range m.Results {
		if r := &m.Results[i]; len(r.Output) > maxInline/len(m.Results) {
			p, err := put(r.Output)
			if err != nil {
				return err
			}
			whole := kernel.Reference{DataRef: *p, Size: int64(len(r.Output)), MediaType: "application/json"}
			r.Output = whole.Append(nil)
			if k, ok := kernel.Of(ctx); ok {
				r.Output, _ = k.Excerpt(ctx, r.Output, maxBeginning/len(m.Results))
			}
		}
	}
	if n := len(jsonvalue.Marshal(m)); n > maxMessage {
		return message.Errorf(413, "The message has %d bytes beside its texts, and may have %d; make it smaller", n, maxMessage)
	}
	return nil
}

// bring moves files that a caller points to into blobs, with the rights of the caller: a stored message points to
// nothing outside of the kernel.
func (x *Sessions) bring(ctx context.Context, files []File) error {
	if x.opts.Open == nil || x.opts.Blobs == nil {
		return nil
	}
	for i := range files {
		f := &files[i]
		if f.DataRef == nil || f.DataRef.Scheme == "data" {
			continue
		}
		if _, _, err := x.opts.Blobs.Beginning(ctx, *f.DataRef, 0); err == nil {
			continue
		}
		data, err := x.opts.Open(ctx, *f.DataRef)
		if err != nil {
			return err
		}
		p, err := x.opts.Blobs.Put(ctx, data)
		if err != nil {
			return err
		}
		f.DataRef = &p
	}
	return nil
}

// grow puts texts, files and arguments that were moved to blobs back into a message. A message of before 0.19 may
// point to something else than a blob: that isn't read, since the caller may not be the one who has written it.
func (x *Sessions) grow(ctx context.Context, m *Message) (failed error) {
	if x.opts.Open == nil {
		return nil
	}
	ctx = kernel.Inside(ctx)
	fetch := func(ref **message.BlobPointer, put func(data []byte)) {
		if *ref == nil || failed != nil {
			return
		}
		var data []byte
		if data, failed = x.opts.Open(ctx, **ref); failed == nil {
			put(data)
			*ref = nil
		}
	}
	text := func(to **string) func([]byte) {
		return func(data []byte) {
			s := string(data)
			*to = &s
		}
	}
	fetch(&m.TextRef, text(&m.Text))
	fetch(&m.SummaryRef, text(&m.Summary))
	for i := range m.Files {
		f := &m.Files[i]
		fetch(&f.DataRef, func(data []byte) { f.Data = base64.StdEncoding.EncodeToString(data) })
	}
	for i := range m.Calls {
		c := &m.Calls[i]
		fetch(&c.ArgsRef, func(data []byte) { c.Args = data })
	}
	return failed
}

// brief returns what is recorded of a request or a reply in place of its data: the session and the turn,
// and none of the texts, which Session.Delete deletes.
func brief(data stdjson.RawMessage) stdjson.RawMessage {
	kept := jsonvalue.Object{}
	for _, name := range []string{"session", "turn", "status", "wait", "seq", "id"} {
		if value := jsonscan.Member(data, name); value != nil {
			kept = kept.Set(name, value)
		}
	}
	return kept.Text()
}

// withoutTexts returns a message as it is recorded: without its texts, which Session.Delete deletes.
func (m *Message) withoutTexts() Message {
	b := Message{ID: m.ID, Seq: m.Seq, Parent: m.Parent, Timestamp: m.Timestamp, Type: m.Type, Turn: m.Turn, Partial: m.Partial, Covers: m.Covers}
	for _, c := range m.Calls {
		b.Calls = append(b.Calls, Call{ID: c.ID, Name: c.Name})
	}
	for _, r := range m.Results {
		b.Results = append(b.Results, Result{CallID: r.CallID, Name: r.Name, Output: jsontext.Value("null")})
	}
	if m.Approval != nil {
		a := *m.Approval
		a.Args, a.Reason = nil, ""
		b.Approval = &a
	}
	return b
}

func invalid(field, format string, args ...any) error {
	return message.Invalid(field, field+": "+format, args...)
}

// after returns the first id after another one.
func after(id string) string {
	u, err := ulid.ParseStrict(id)
	if err != nil {
		return id
	}
	for i := len(u) - 1; i >= 0; i-- {
		if u[i]++; u[i] != 0 {
			break
		}
	}
	return u.String()
}
