package register

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"kernos/internal/jsonscan"
	"kernos/kernel"
	"kernos/kernel/principal"
	"kernos/message"
	"kernos/schema"
)

type registerInput struct {
	Name         string         `json:"name" jsonschema_description:"The type to serve: Domain.Action in PascalCase, such as Text.Count. The domains of built-in syscalls are reserved."`
	Kind         message.Kind   `json:"kind,omitempty" jsonschema:"enum=command,enum=query,oneof_required=kind" jsonschema_description:"command if the syscall may change something, query if not."`
	Type         message.Kind   `json:"type,omitempty" jsonschema:"enum=command,enum=query,oneof_required=type" jsonschema_description:"The name of kind in the older dialect."`
	Description  string         `json:"description,omitempty" jsonschema:"maxLength=1024" jsonschema_description:"One sentence that says what the syscall does; callers choose by it."`
	InputSchema  jsontext.Value `json:"inputSchema" jsonschema_description:"JSON Schema of the request's data. The kernel checks requests before they are sent to you. Fields that are writeOnly are not recorded."`
	OutputSchema jsontext.Value `json:"outputSchema" jsonschema_description:"JSON Schema of the reply's data. A reply that breaks it becomes a 502."`
	Handler      string         `json:"handler,omitempty" jsonschema_description:"What answers the requests: connection, the one that sends this. Default: connection."`
	Emits        []eventInput   `json:"emits,omitempty" jsonschema:"maxItems=100" jsonschema_description:"The events that may come before the outcome. Events that are not listed may come too."`
	Exclusive    bool           `json:"exclusive,omitempty" jsonschema_description:"Whether this connection is to be the only one that serves the type. Otherwise connections of the same caller share the requests."`
	Timeout      int64          `json:"timeout,omitempty" jsonschema:"minimum=1,maximum=86400000" jsonschema_description:"How long an answer may take, in milliseconds. Default: the kernel's timeout."`
	SafeToRepeat bool           `json:"safeToRepeat,omitempty" jsonschema_description:"Whether a command may run twice for one idempotency key: a retry after an unknown outcome is sent to you again. Otherwise it is answered with 409."`
	Version      string         `json:"version,omitempty" jsonschema:"maxLength=64,pattern=^[0-9]+\\.[0-9]+\\.[0-9]+[0-9A-Za-z.+-]*$" jsonschema_description:"The semantic version of the module that the syscall is listed in, if it is the first of its domain. Default: 1.0.0."`
	Code         jsontext.Value `json:"code,omitempty" jsonschema_description:"Reserved for handlers as code, which are not supported yet."`
}

type eventInput struct {
	Type        string `json:"type" jsonschema_description:"The event's type: Domain.Action, in the past tense."`
	Description string `json:"description,omitempty" jsonschema:"maxLength=1024" jsonschema_description:"What the event tells."`
}

// definition is what a connection says of a syscall, in a form that can be compared.
type definition struct {
	kernel.Definition
	input, output []byte // the schemas, canonical
	exclusive     bool   // only one connection may serve it
	version       string // of its module
}

// invalid is the error for a field that fits the schema and makes no sense.
func invalid(field, format string, args ...any) *message.Error {
	return &message.Error{Code: 422, Message: "Schema validation failed: " + fmt.Sprintf(format, args...), Field: field}
}

// read checks what is to be registered.
func (in *registerInput) read() (*definition, error) {
	t := message.Type(in.Name)
	if err := checkName("name", t); err != nil {
		return nil, err
	}
	switch {
	case len(in.Code) > 0:
		return nil, message.Errorf(501, "Handlers as code are not supported yet: leave code out, register %s with \"handler\":\"connection\", and answer its requests on this connection", t)
	case in.Handler != "" && in.Handler != "connection":
		return nil, invalid("handler", `handler: expected "connection", got %q`, message.Clip(in.Handler, 64))
	}
	summary := in.Description
	if strings.TrimSpace(summary) == "" {
		summary = fmt.Sprintf("%s, served by a program that doesn't describe it.", t)
	}
	def := &definition{exclusive: in.Exclusive, version: cmp.Or(in.Version, "1.0.0"), Definition: kernel.Definition{
		Type: t, Kind: cmp.Or(in.Kind, in.Type), Summary: summary, SafeToRepeat: in.SafeToRepeat,
		Runs: kernel.Slow, Provider: kernel.Program, Effect: kernel.External, Timeout: time.Duration(in.Timeout) * time.Millisecond,
	}}
	for i, e := range in.Emits {
		field := fmt.Sprintf("emits[%d].type", i)
		if err := checkName(field, message.Type(e.Type)); err != nil {
			return nil, err
		}
		if emits(def, message.Type(e.Type)) {
			return nil, invalid(field, "%s: %s is named twice", field, e.Type)
		}
		def.Emits = append(def.Emits, kernel.EventDefinition{Type: message.Type(e.Type), Summary: e.Description})
	}
	var err error
	if def.Input, def.input, err = readSchema("inputSchema", in.InputSchema); err != nil {
		return nil, err
	}
	if def.Output, def.output, err = readSchema("outputSchema", jsontext.Value(kernel.WithoutReference([]byte(in.OutputSchema)))); err != nil {
		return nil, err
	}
	return def, nil
}

// checkName refuses names that can't be registered.
func checkName(field string, t message.Type) error {
	if t == message.Echo || t == message.Ping {
		return message.Errorf(403, "%s: %s is built in and can't be replaced; choose another name", field, t)
	}
	if !t.Valid() {
		hint := ""
		if meant := message.Repair(string(t)); meant != "" && meant.Domain() != "" {
			hint = fmt.Sprintf(" (did you mean %s?)", meant)
		}
		return invalid(field, "%s: expected Domain.Action in PascalCase, at most %d bytes, got %q%s", field, message.MaxTypeLength, message.Clip(string(t), 64), hint)
	}
	if principal.Builtin(t) {
		return message.Errorf(403, "%s: %s is reserved, as all of %s.* is; choose another domain", field, t, t.Domain())
	}
	return nil
}

func emits(def *definition, t message.Type) bool {
	return slices.ContainsFunc(def.Emits, func(e kernel.EventDefinition) bool { return e.Type == t })
}

// agrees says in what another definition of the same type differs. Descriptions are for
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
	if len(d.Emits) != len(o.Emits) || slices.ContainsFunc(o.Emits, func(e kernel.EventDefinition) bool { return !emits(d, e.Type) }) {
		names := make([]string, len(d.Emits))
		for i, e := range d.Emits {
			names[i] = string(e.Type)
		}
		differs = append(differs, fmt.Sprintf("emits (there are %s)", cmp.Or(message.Clip(strings.Join(names, ", "), 200), "none")))
	}
	if d.SafeToRepeat != o.SafeToRepeat {
		differs = append(differs, fmt.Sprintf("safeToRepeat (it is %t)", d.SafeToRepeat))
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

// maxSchema is how many bytes a schema may have, so that Syscall.Describe fits on a line.
const maxSchema = message.MaxLine

func readSchema(field string, text jsontext.Value) (s *schema.Schema, canonical []byte, err error) {
	if len(text) > maxSchema {
		return nil, nil, invalid(field, "%s: expected at most %d bytes, got %d", field, maxSchema, len(text))
	}
	if s, err = schema.Parse([]byte(text)); err != nil {
		return nil, nil, invalid(field, "%s is %v", field, err)
	}
	canonical = jsonscan.AppendCanonical(nil, text)
	if string(canonical) == "{}" || string(canonical) == "true" {
		s = schema.Any
	}
	return s, canonical, nil
}
