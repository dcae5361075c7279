package register

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"kernos/capability/script"
	"kernos/internal/when"
	"kernos/kernel"
	"kernos/message"
)

type registerInput struct {
	Name         string              `json:"name" jsonschema_description:"The type to serve: Domain.Action in PascalCase, such as Text.Count. The domains of built-in syscalls are reserved."`
	Kind         message.Kind        `json:"kind,omitempty" jsonschema:"enum=command,enum=query" jsonschema_description:"command if the syscall may change something, query if not. Required, unless code exports it."`
	Type         message.Kind        `json:"type,omitempty" jsonschema:"enum=command,enum=query" jsonschema_description:"The name of kind in the older dialect."`
	Description  string              `json:"description,omitempty" jsonschema:"maxLength=1024" jsonschema_description:"One sentence that says what the syscall does; callers choose by it."`
	InputSchema  jsontext.Value      `json:"inputSchema,omitempty" jsonschema_description:"JSON Schema of the request's data. The kernel checks requests before they are sent to you. Fields that are writeOnly are not recorded. Required, unless code exports InputSchema."`
	OutputSchema jsontext.Value      `json:"outputSchema,omitempty" jsonschema_description:"JSON Schema of the reply's data. A reply that breaks it becomes a 502. Required, unless code exports OutputSchema."`
	Handler      string              `json:"handler,omitempty" jsonschema_description:"What answers the requests: connection, the one that sends this. Default: connection."`
	Emits        []script.Event      `json:"emits,omitempty" jsonschema:"maxItems=100" jsonschema_description:"The events that may come before the outcome. Events that are not listed may come too."`
	Exclusive    bool                `json:"exclusive,omitempty" jsonschema_description:"Whether this connection is to be the only one that serves the type. Otherwise connections of the same caller share the requests."`
	Timeout      when.Span           `json:"timeout,omitempty" jsonschema:"minimum=1,maximum=86400000" jsonschema_description:"How long an answer may take: milliseconds, or a text such as 90s. Default: the kernel's timeout."`
	SafeToRepeat bool                `json:"safeToRepeat,omitempty" jsonschema_description:"Whether a command may run twice for one idempotency key: a retry after an unknown outcome is sent to you again. Otherwise it is answered with 409."`
	Presentation kernel.Presentation `json:"presentation,omitzero" jsonschema_description:"How people see the syscall. Code may export it."`
	Version      string              `json:"version,omitempty" jsonschema:"maxLength=64,pattern=^[0-9]+\\.[0-9]+\\.[0-9]+[0-9A-Za-z.+-]*$" jsonschema_description:"The semantic version of code; the default is the next one. Without code: that of the module that the syscall is listed in, if it is the first of its domain; the default is 1.0.0."`

	Code     string               `json:"code,omitempty" jsonschema_description:"TypeScript or JavaScript that exports handler, a function of the request's data; then the kernel runs it, and keeps it until Syscall.Unregister. It may export InputSchema, OutputSchema, kind, description, version and presentation instead of giving them here. Beside JavaScript it has await kernos.call(type, data) for every syscall, such as Memory.Get and Memory.Set (a query calls queries only), kernos.progress(note, fraction), throw new kernos.Error(code, message), fetch (Http.Fetch: sealed strings in headers are opened), console, crypto, URL and timers; no files, no processes, no require, and nothing stays from one call to the next: state belongs in Memory. Example: export async function handler({city}) { const key = await kernos.call('Memory.Get', {key: 'vault/weather'}); const reply = await fetch('https://api.example.com/now?q=' + encodeURIComponent(city), {headers: {Authorization: 'Bearer ' + key}}); return reply.json(); }"`
	CodeRef  *message.BlobPointer `json:"codeRef,omitempty" jsonschema_description:"A pointer to the code if it is too large for a message: at most 4 MB."`
	Language string               `json:"language,omitempty" jsonschema:"enum=ts,enum=js,enum=wasm" jsonschema_description:"Of code: ts, which includes js, or wasm, a WASI module in base64 that reads JSON from stdin and writes JSON to stdout. Default: ts."`
	Limits   script.Limits        `json:"limits,omitzero" jsonschema_description:"Of each call of code."`
	Weights  map[string]int       `json:"weights,omitempty" jsonschema_description:"How versions of code share the calls: {\"1.0.0\":9,\"1.1.0\":1}. Default: all calls for the version that is registered."`
}

// definition is what a connection states about a syscall, in a form that can be compared.
type definition struct {
	kernel.Definition
	input, output []byte // the schemas, canonical
	exclusive     bool   // only one connection may serve the syscall
	version       string // version of the module
}

// read checks what is to be registered.
func (in *registerInput) read(r *kernel.Registry) (*definition, error) {
	t := message.Type(in.Name)
	if err := checkName(r, "name", t); err != nil {
		return nil, err
	}
	switch {
	case in.kind() == "":
		return nil, message.Invalid("kind", "missing required field: one of kind, type")
	case in.InputSchema == nil:
		return nil, message.Invalid("inputSchema", "missing required field: inputSchema")
	case in.OutputSchema == nil:
		return nil, message.Invalid("outputSchema", "missing required field: outputSchema")
	case in.Language != "" || in.Weights != nil || in.Limits != script.Limits{}:
		return nil, message.Invalid("code", "language, limits and weights are those of code; give code, or leave them out")
	case in.Handler != "" && in.Handler != "connection":
		return nil, message.Invalid("handler", `handler: expected "connection", got %q`, message.Clip(in.Handler, 64))
	}
	summary := in.Description
	if strings.TrimSpace(summary) == "" {
		summary = fmt.Sprintf("%s, served by a program that doesn't describe it.", t)
	}
	def := &definition{exclusive: in.Exclusive, version: cmp.Or(in.Version, "1.0.0"), Definition: kernel.Definition{
		Type:         t,
		Kind:         in.kind(),
		Summary:      summary,
		Presentation: in.Presentation,
		Behavior: kernel.Behavior{
			Repeat:  kernel.RetriedIf(in.SafeToRepeat),
			Runs:    kernel.Slow,
			Reaches: []kernel.Reach{kernel.ToProgram},
			Effect:  kernel.External,
			Timeout: in.Timeout.Duration(),
		},
	}}
	var err error
	if def.Emits, err = in.events(r); err != nil {
		return nil, err
	}
	if def.Input, def.input, err = script.ReadSchema("inputSchema", in.InputSchema); err != nil {
		return nil, err
	}
	if def.Output, def.output, err = script.ReadSchema("outputSchema", in.outputSchema()); err != nil {
		return nil, err
	}
	if err := in.Presentation.Check(def.input); err != nil {
		return nil, message.Invalid("presentation", "presentation: %v", err)
	}
	return def, nil
}

// kind is given under one of two names.
func (in *registerInput) kind() message.Kind { return cmp.Or(in.Kind, in.Type) }

// outputSchema returns the schema that is given, or what Syscall.Describe makes of it.
func (in *registerInput) outputSchema() jsontext.Value {
	if in.OutputSchema == nil {
		return nil
	}
	return jsontext.Value(kernel.WithoutReference([]byte(in.OutputSchema)))
}

// events checks the events that the syscall emits.
func (in *registerInput) events(r *kernel.Registry) (events []kernel.EventDefinition, err error) {
	for i, e := range in.Emits {
		field := fmt.Sprintf("emits[%d].type", i)
		t := message.Type(e.Type)
		if err := checkName(r, field, t); err != nil {
			return nil, err
		}
		if emits(events, t) {
			return nil, message.Invalid(field, "%s: %s is named twice", field, e.Type)
		}
		events = append(events, kernel.EventDefinition{Type: t, Summary: e.Description})
	}
	return events, nil
}

// checkName refuses names that can't be registered.
func checkName(r *kernel.Registry, field string, t message.Type) error {
	if t == message.Echo || t == message.Ping {
		return message.Errorf(403, "%s: %s is built in and can't be replaced; choose another name", field, t)
	}
	if !t.Valid() {
		hint := ""
		if meant := message.Repair(string(t)); meant != "" && meant.Domain() != "" {
			hint = fmt.Sprintf(" (did you mean %s?)", meant)
		}
		return message.Invalid(field, "%s: expected Domain.Action in PascalCase, at most %d bytes, got %q%s", field, message.MaxTypeLength, message.Clip(string(t), 64), hint)
	}
	if r.BuiltIn(t) {
		return message.Errorf(403, "%s: %s is reserved, as all of %s.* is; choose another domain", field, t, t.Domain())
	}
	return nil
}

func emits(events []kernel.EventDefinition, t message.Type) bool {
	return slices.ContainsFunc(events, func(e kernel.EventDefinition) bool { return e.Type == t })
}

// agrees reports in what another definition of the same type differs. Descriptions are for
// people, and may.
func (d *definition) agrees(o *definition) error {
	var differs []string
	if d.Kind != o.Kind {
		differs = append(differs, fmt.Sprintf("kind (it is a %s)", d.Kind))
	}
	if !bytes.Equal(d.input, o.input) {
		differs = append(differs, "inputSchema")
	}
	if !bytes.Equal(d.output, o.output) {
		differs = append(differs, "outputSchema")
	}
	if len(d.Emits) != len(o.Emits) || slices.ContainsFunc(o.Emits, func(e kernel.EventDefinition) bool { return !emits(d.Emits, e.Type) }) {
		names := make([]string, len(d.Emits))
		for i, e := range d.Emits {
			names[i] = string(e.Type)
		}
		differs = append(differs, fmt.Sprintf("emits (there are %s)", cmp.Or(message.Clip(strings.Join(names, ", "), 200), "none")))
	}
	if d.Repeat != o.Repeat {
		differs = append(differs, fmt.Sprintf("safeToRepeat (it is %t)", d.Repeat.Has(kernel.Retried)))
	}
	if d.Timeout != o.Timeout {
		is := "there is none"
		if d.Timeout != 0 {
			is = fmt.Sprintf("it is %d", d.Timeout.Milliseconds())
		}
		differs = append(differs, fmt.Sprintf("timeout (%s)", is))
	}
	if differs == nil {
		return nil
	}
	return message.Errorf(409, "%s is served by another connection, and your definition differs in %s; send the same as Syscall.Describe shows, or choose another name", d.Type, strings.Join(differs, ", "))
}

// compiledSize is about how many bytes the schemas take when they are compiled: 150 KB were
// measured for 10 KB of text.
func (d *definition) compiledSize() int { return 16 * (len(d.input) + len(d.output)) }
