package introspect

import (
	"context"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"kernos/internal/nearest"
	"kernos/kernel"
	"kernos/message"
	"kernos/schema"
)

type describeInput struct {
	Name string `json:"name" jsonschema_description:"Type of the syscall to describe, for example 'Echo' or 'Memory.Get'. Syscall.List names them all."`
}

type description struct {
	Name string         `json:"name" jsonschema_description:"The type that was asked for."`
	Kind message.Kind   `json:"kind,omitempty" jsonschema:"enum=command,enum=query" jsonschema_description:"command if the syscall may change something, query if not."`
	Type message.Kind   `json:"type,omitempty" jsonschema:"-"` // instead of kind, under the older name
	In   jsontext.Value `json:"input" jsonschema_description:"JSON Schema of the request's data."`
	Out  jsontext.Value `json:"output" jsonschema_description:"JSON Schema of the reply's data."`
}

// olderDescribe is the name of Describe in the older specification, where a
// description says type instead of kind.
const olderDescribe message.Type = "Sys.Describe"

// Describe says what a syscall takes and gives.
func Describe(r *kernel.Registry) kernel.Syscall {
	return kernel.Syscall{
		Definition: kernel.Definition{
			Type:    "Syscall.Describe",
			Kind:    message.KindQuery,
			Summary: "Say what a syscall takes and gives, as JSON Schema.",
			Input:   schema.Input[describeInput](),
			Output:  schema.Output[description](),
			Aliases: []message.Type{olderDescribe},
		},
		Handler: func(_ context.Context, m message.Message, emit kernel.Emit) {
			var in describeInput
			if err := json.Unmarshal(m.Data, &in); err != nil {
				emit(m.Fail(message.Errorf(422, "Schema validation failed: %v", err)))
				return
			}
			s, ok := r.Lookup(message.Type(in.Name))
			if !ok {
				emit(m.Fail(unknown(in.Name, r)))
				return
			}
			d := description{
				Name: in.Name,
				Kind: s.Kind,
				In:   jsontext.Value(s.Input.JSON()),
				Out:  jsontext.Value(s.Output.JSON()),
			}
			if m.Type == olderDescribe {
				d.Kind, d.Type = "", s.Kind
			}
			data, err := json.Marshal(d)
			if err != nil {
				emit(m.Fail(message.Errorf(500, "Can't describe %s", in.Name)))
				return
			}
			emit(m.Reply(data))
		},
	}
}

func unknown(name string, r *kernel.Registry) *message.Error {
	names := make([]string, 0, len(r.Types()))
	for _, t := range r.Types() {
		names = append(names, string(t))
	}
	hint := nearest.Hint(name, names)
	if hint == "" {
		hint = "Syscall.List names what there is."
	}
	return message.Errorf(404, "No syscall is named %q: %s", message.Clip(name, 64), hint)
}

type listInput struct{}

type listOutput struct {
	Syscalls []message.Type `json:"syscalls" jsonschema_description:"The types of all syscalls, sorted."`
}

// List names all syscalls.
func List(r *kernel.Registry) kernel.Syscall {
	return kernel.Query(
		kernel.Definition{
			Type:    "Syscall.List",
			Summary: "Name all syscalls that can be called.",
		},
		func(context.Context, listInput) (listOutput, error) {
			return listOutput{Syscalls: r.Types()}, nil
		},
	)
}
