package introspect

import (
	"context"

	"github.com/go-json-experiment/json/jsontext"

	"kernos/internal/nearest"
	"kernos/kernel"
	"kernos/kernel/principal"
	"kernos/message"
)

type describeInput struct {
	Name string `json:"name" jsonschema_description:"Type of the syscall to describe, for example 'Echo' or 'Memory.Get'. Syscall.List names them all."`
}

type description struct {
	Name   string         `json:"name" jsonschema_description:"The type that was asked for."`
	Kind   message.Kind   `json:"kind" jsonschema:"enum=command,enum=query" jsonschema_description:"command if the syscall may change something, query if not."`
	Input  jsontext.Value `json:"input" jsonschema_description:"JSON Schema of the request's data."`
	Output jsontext.Value `json:"output" jsonschema_description:"JSON Schema of the reply's data."`
	*registration
}

// registration is what else Syscall.Register was told of a syscall that a program serves:
// another program that is to serve it too has to say the same.
type registration struct {
	Description string  `json:"description,omitempty" jsonschema_description:"What the syscall does, if a program has registered it."`
	Emits       []event `json:"emits,omitempty" jsonschema_description:"The events that it is registered with."`
	Timeout     int64   `json:"timeout,omitempty" jsonschema_description:"How long an answer may take by its registration, in milliseconds."`
}

type event struct {
	Type        message.Type `json:"type" jsonschema_description:"The event's type."`
	Description string       `json:"description,omitempty" jsonschema_description:"What the event tells."`
}

// registered returns how a syscall was registered, or nil if it is built in.
func registered(s *kernel.Syscall) *registration {
	if s.Provider != kernel.Program {
		return nil
	}
	r := &registration{Description: s.Summary, Timeout: s.Timeout.Milliseconds()}
	for _, e := range s.Emits {
		r.Emits = append(r.Emits, event{e.Type, e.Summary})
	}
	return r
}

var describe = kernel.DefineQuery[describeInput, description](kernel.Definition{
	Type:    "Syscall.Describe",
	Summary: "Describe a syscall: its kind, and its input and output as JSON Schema.",
})

func (c catalog) describe(ctx context.Context, in describeInput) (description, error) {
	s, err := c.find(kernel.PrincipalOf(ctx), in.Name)
	if err != nil {
		return description{}, err
	}
	return description{in.Name, s.Kind, jsontext.Value(s.Input.JSON()), jsontext.Value(s.Output.JSON()), registered(s)}, nil
}

// olderDescription is a description in the form of the older specification, in which
// the kind was called type.
type olderDescription struct {
	Name   string         `json:"name" jsonschema_description:"The type that was asked for."`
	Type   message.Kind   `json:"type" jsonschema:"enum=command,enum=query" jsonschema_description:"command if the syscall may change something, query if not."`
	Input  jsontext.Value `json:"input" jsonschema_description:"JSON Schema of the request's data."`
	Output jsontext.Value `json:"output" jsonschema_description:"JSON Schema of the reply's data."`
}

// olderDescribe is Syscall.Describe under its older name and in its older form.
var olderDescribe = kernel.DefineQuery[describeInput, olderDescription](kernel.Definition{
	Type:       "Sys.Describe",
	Summary:    "Describe a syscall in the form of the older specification.",
	Visibility: kernel.Hidden,
})

func (c catalog) olderDescribe(ctx context.Context, in describeInput) (olderDescription, error) {
	s, err := c.find(kernel.PrincipalOf(ctx), in.Name)
	if err != nil {
		return olderDescription{}, err
	}
	return olderDescription{in.Name, s.Kind, jsontext.Value(s.Input.JSON()), jsontext.Value(s.Output.JSON())}, nil
}

// find looks a syscall up that a caller may call. The error is the 403 that a call would get, or
// a 404 that names the syscalls that may have been meant.
func (c catalog) find(caller *principal.Principal, name string) (*kernel.Syscall, error) {
	if s, ok := c.registry.Lookup(message.Type(name)); ok {
		if no := caller.May(s.Target()); no != nil {
			return nil, no
		}
		return s, nil
	}
	var names []string
	for _, t := range c.registry.For(caller).Types() {
		names = append(names, string(t))
	}
	hint := nearest.Hint(name, names)
	if hint == "" {
		hint = "Syscall.List lists all syscalls."
	}
	return nil, message.Errorf(404, "No syscall is named %q: %s", message.Clip(name, 64), hint)
}

type listInput struct{}

type listOutput struct {
	Syscalls []message.Type `json:"syscalls" jsonschema_description:"The types of all syscalls that the caller may call, sorted."`
}

var list = kernel.DefineQuery[listInput, listOutput](kernel.Definition{
	Type:    "Syscall.List",
	Summary: "List the types of all syscalls.",
})

func (c catalog) list(ctx context.Context, _ listInput) (listOutput, error) {
	return listOutput{Syscalls: c.registry.For(kernel.PrincipalOf(ctx)).Types()}, nil
}
