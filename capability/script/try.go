package script

import (
	"cmp"
	"context"
	"encoding/json"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"kernos/capability/script/engine"
	"kernos/internal/secret"
	"kernos/kernel"
	"kernos/message"
	"kernos/schema"
)

type testInput struct {
	Code         string                     `json:"code,omitempty" jsonschema_description:"The code: it exports handler."`
	CodeRef      *message.BlobPointer       `json:"codeRef,omitempty" jsonschema_description:"A pointer to the code if it is too large for a message: at most 4 MB."`
	Data         jsontext.Value             `json:"data,omitempty" jsonschema_description:"The input of the handler. Default: an empty object."`
	Name         string                     `json:"name,omitempty" jsonschema_description:"What errors call the code. Default: Test.Run."`
	Kind         message.Kind               `json:"kind,omitempty" jsonschema:"enum=command,enum=query" jsonschema_description:"What it is to be registered as: a query may only call queries. Default: what the code exports, or command."`
	Language     string                     `json:"language,omitempty" jsonschema:"enum=ts,enum=js,enum=wasm" jsonschema_description:"Default: ts, which includes js."`
	InputSchema  jsontext.Value             `json:"inputSchema,omitempty" jsonschema_description:"JSON Schema of the input. Default: the one that the code exports, or any."`
	OutputSchema jsontext.Value             `json:"outputSchema,omitempty" jsonschema_description:"JSON Schema of the output. Default: the one that the code exports, or any."`
	Limits       Limits                     `json:"limits,omitzero" jsonschema_description:"The limits of the call."`
	Replies      map[string]json.RawMessage `json:"replies,omitempty" jsonschema_description:"What commands answer, by their types. Commands aren't run: without an entry here, one answers with an example of its output. Queries are run."`
}

type testOutput struct {
	Output jsontext.Value `json:"output,omitzero" jsonschema_description:"What the handler has returned, if it succeeded."`
	Error  *testError     `json:"error,omitzero" jsonschema_description:"Why it failed; a message about the code has its line and column."`
	Events []testEvent    `json:"events,omitzero" jsonschema_description:"The events that it has emitted."`
	Logs   []testLine     `json:"logs,omitzero" jsonschema_description:"What it has written to the console."`
	Calls  []testCall     `json:"calls,omitzero" jsonschema_description:"The syscalls that it has called, in their order."`
	Ms     float64        `json:"ms" jsonschema_description:"How long the handler ran, in milliseconds."`
}

type testEvent struct {
	Type message.Type   `json:"type" jsonschema_description:"The event's type."`
	Data jsontext.Value `json:"data" jsonschema_description:"Its data."`
}

type testLine struct {
	Level string `json:"level" jsonschema_description:"debug, info, warn or error."`
	Text  string `json:"text" jsonschema_description:"The line."`
}

type testCall struct {
	Type  string         `json:"type" jsonschema_description:"The syscall."`
	Data  jsontext.Value `json:"data" jsonschema_description:"What it was called with, without secrets."`
	Run   bool           `json:"run" jsonschema_description:"Whether it was run: queries are, commands aren't."`
	Reply jsontext.Value `json:"reply,omitzero" jsonschema_description:"What it answered, or was made to answer, without secrets."`
	Error *testError     `json:"error,omitzero" jsonschema_description:"Why it failed, or would fail."`
}

type testError struct {
	Code    int    `json:"code" jsonschema_description:"The code of the error."`
	Message string `json:"message" jsonschema_description:"What is wrong, with its causes."`
}

func newTestError(err error) *testError {
	e, _ := message.ErrorOf(err)
	return &testError{e.Code, e.Error()}
}

var test = kernel.DefineCommand[testInput, testOutput](kernel.Definition{
	Type:    "Syscall.Test",
	Summary: "Run code against sample input without registering it, and return its output, logs, time and the syscalls that it calls. Queries are run; commands aren't.",
	Input:   schema.Input[testInput]().Example(`{"code":"export const handler = (input: {n: number}) => ({n: 2 * input.n});","data":{"n":21}}`),
	Presentation: kernel.Presentation{
		Title: "Try code",
		Words: "dry run, debug a script, test a script, run code once, does my code work, evaluate javascript, execute a snippet, " +
			"test my tool before it is saved, try out a function, run typescript",
		Stdin:   "code",
		Failure: "the code has failed: {error.code} {error.message}",
		Errors: []kernel.ErrorDefinition{
			{Code: 422, When: "the code can't be compiled, exports no handler, or the input doesn't fit its schema"},
		},
	},
	Behavior:  kernel.Behavior{Volatile: []string{"ms"}, Runs: kernel.Slow, Timeout: 5 * time.Minute},
	Journaled: kernel.Journaled{Redact: withoutSecretInput},
})

var withoutInput = kernel.Without("data")

// withoutSecretInput leaves out the input of code whose schema may mark a part of it as a secret. Which part is
// known only when the code has run, and that is after the request was recorded.
func withoutSecretInput(data json.RawMessage) json.RawMessage {
	var in struct {
		Code                 string
		CodeRef, InputSchema json.RawMessage
	}
	if err := json.Unmarshal(data, &in); err == nil && in.CodeRef == nil && !secret.MayBeMarked([]byte(in.Code)) && !secret.MayBeMarkedJSON(in.InputSchema) {
		return data
	}
	return withoutInput(data)
}

func (s *Scripts) test(ctx context.Context, in testInput) (out testOutput, err error) {
	src := Source{Name: "Test.Run", Kind: in.Kind, Code: in.Code, CodeRef: in.CodeRef, Language: in.Language, Input: in.InputSchema, Output: in.OutputSchema, Limits: in.Limits}
	if in.Name != "" {
		src.Name = message.Type(in.Name)
	}
	program, err := s.compile(ctx, &src)
	if err != nil {
		return out, err
	}
	src.Kind = cmp.Or(src.Kind, message.Kind(program.Kind), message.KindCommand)
	input, output := schema.Any, schema.Any
	for _, one := range []struct {
		field           string
		given, exported jsontext.Value
		to              **schema.Schema
	}{{"inputSchema", in.InputSchema, jsontext.Value(program.InputSchema), &input}, {"outputSchema", in.OutputSchema, jsontext.Value(program.OutputSchema), &output}} {
		if one.given == nil {
			one.given = one.exported
		}
		if one.given == nil {
			continue
		}
		if *one.to, _, err = ReadSchema(one.field, one.given); err != nil {
			return out, err
		}
	}
	if in.Data == nil {
		in.Data = jsontext.Value("{}")
	}
	data, _, err := input.Meant(json.RawMessage(in.Data))
	if err != nil {
		return out, message.Invalid("data", "data: %v", err)
	}
	k, _ := kernel.Of(ctx)
	c, _ := kernel.CallOf(ctx)
	t := &trial{k: k, sender: c.Sender(), name: src.Name, kind: src.Kind, replies: in.Replies}
	begun := time.Now()
	result, err := s.opts.Engine.Run(ctx, program, data, t, src.Limits.engine())
	took := time.Since(begun)
	if err == nil {
		err = checkOutput(src.Name, output, result)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	out, t.out = t.out, testOutput{}
	out.Ms = milliseconds(took)
	if err == nil {
		out.Output = jsontext.Value(result)
		return out, nil
	}
	out.Error = newTestError(outcome(err, true))
	return out, nil
}

// A trial is the host of code that is tested: commands aren't run.
type trial struct {
	k       *kernel.Kernel
	sender  kernel.Sender
	name    message.Type
	kind    message.Kind
	replies map[string]json.RawMessage

	mu  sync.Mutex
	out testOutput
}

// Call implements [engine.Host].
func (t *trial) Call(ctx context.Context, typ string, data json.RawMessage) (json.RawMessage, error) {
	s, _ := t.k.Registry().Lookup(message.Type(typ))
	data, _ = t.k.Meant(message.Type(typ), data)
	t.mu.Lock()
	i := len(t.out.Calls)
	t.out.Calls = append(t.out.Calls, testCall{Type: typ, Data: shown(s, message.KindCommand, data)})
	t.mu.Unlock()
	reply, run, err := t.answer(ctx, message.Type(typ), data)
	t.mu.Lock()
	defer t.mu.Unlock()
	if i < len(t.out.Calls) {
		one := &t.out.Calls[i]
		if one.Run = run; err == nil {
			one.Reply = shown(s, message.KindReply, reply)
		} else {
			one.Error = newTestError(err)
		}
	}
	return reply, err
}

// shown returns the data of a call, or of its reply, without what the syscall marks as secret: the reply of the test is
// recorded.
func shown(s *kernel.Syscall, kind message.Kind, data json.RawMessage) jsontext.Value {
	if s != nil && s.Answers != kernel.FromJournal { // the journal has no secrets
		data, _ = kernel.WithoutMarked(s, kind, data)
	}
	return jsontext.Value(data)
}

// answer returns what a syscall answers: a query is run.
func (t *trial) answer(ctx context.Context, typ message.Type, data json.RawMessage) (reply json.RawMessage, run bool, err error) {
	s, err := t.k.Check(typ, data, t.sender)
	if err != nil {
		return nil, false, err
	}
	given, isGiven := t.replies[string(typ)]
	switch {
	case s.Kind == message.KindCommand && t.kind == message.KindQuery:
		return nil, false, message.Errorf(403, "%s is a query and may not call the command %s", t.name, typ)
	case isGiven:
		return given, false, nil
	case s.Kind == message.KindQuery:
		reply, err = kernel.Invoke(ctx, typ, data)
		return reply, true, err
	}
	if example, ok := schema.ExampleOf(s.Output); ok {
		return example, false, nil
	}
	return json.RawMessage("null"), false, nil
}

// Emit implements [engine.Host].
func (t *trial) Emit(_ context.Context, typ string, data json.RawMessage) error {
	event, err := eventType(t.k, t.name, typ)
	if err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.out.Events = append(t.out.Events, testEvent{event, jsontext.Value(data)})
	return nil
}

// Progress implements [engine.Host].
func (t *trial) Progress(_ context.Context, note string, fraction float64) error {
	data, err := json.Marshal(map[string]any{"message": note, "percentage": max(0, min(fraction, 1))})
	if err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.out.Events = append(t.out.Events, testEvent{kernel.Progressed, data})
	return nil
}

// Log implements [engine.Host].
func (t *trial) Log(level, text string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.out.Logs = append(t.out.Logs, testLine{level, text})
}

var _ engine.Host = (*trial)(nil)
