package introspect

import (
	"cmp"
	"context"

	"github.com/go-json-experiment/json/jsontext"

	"kernos/internal/ranked"
	"kernos/kernel"
	"kernos/kernel/principal"
	"kernos/message"
	"kernos/schema"
)

type searchInput struct {
	Query string      `json:"query" jsonschema:"minLength=1,maxLength=1000,example=fetch a web page" jsonschema_description:"What is wanted, such as 'store a value' or 'fetch a web page'."`
	Mode  ranked.Mode `json:"mode,omitempty" jsonschema:"enum=words,enum=meaning,enum=both,default=both" jsonschema_description:"What to go by."`
	Limit int         `json:"limit,omitempty" jsonschema:"minimum=1,maximum=100,default=5" jsonschema_description:"How many syscalls at most."`
}

type searchOutput struct {
	Syscalls []hit `json:"syscalls" jsonschema_description:"The syscalls that fit, best first. Syscall.Describe reports what one of them takes and returns."`
	kernel.Narrowed
}

type hit struct {
	Name    message.Type `json:"name" jsonschema_description:"The type of the syscall."`
	Kind    message.Kind `json:"kind" jsonschema:"enum=command,enum=query" jsonschema_description:"The kind to send it with."`
	Summary string       `json:"summary" jsonschema_description:"What it does."`
	For     string       `json:"for,omitzero" jsonschema:"enum=owner only" jsonschema_description:"Left out if the caller may call it. Of the others, the kernel's own are found that only the owner may call: Syscall.Describe shows what to type."`
	Score   float64      `json:"score" jsonschema_description:"How well it fits. Only scores of one reply are comparable."`
	Why     ranked.Why   `json:"why" jsonschema_description:"Why it was found."`
}

var search = kernel.DefineQuery[searchInput, searchOutput](kernel.Definition{
	Type:    "Syscall.Search",
	Summary: "Find syscalls by what they do, in words of one's own, best first.",
	Presentation: kernel.Presentation{
		Title: "Find a syscall",
		Words: "find a tool, discover, which tool does this, is there a tool for it, which command do i need, what do i use to do it, look for a command, " +
			"search the tools, find the right function",
		Columns: []string{"NAME {name}", "KIND {kind}", "SUMMARY {summary}"},
	},
	Journaled: kernel.Journaled{Recording: kernel.InWorkflows},
	Access:    principal.ForAll,
})

const defaultHits = 5

func (c catalog) search(ctx context.Context, in searchInput) (searchOutput, error) {
	out := searchOutput{Syscalls: []hit{}, Narrowed: kernel.Narrow(ctx, (*principal.Principal).IsOwner)}
	caller := kernel.PrincipalOf(ctx)
	found, err := c.registry.Known(caller).Search(ctx, c.meaning, ranked.Query{Text: in.Query, Mode: in.Mode, Limit: cmp.Or(in.Limit, defaultHits)})
	for _, h := range found {
		out.Syscalls = append(out.Syscalls, hit{h.Syscall.Type, h.Syscall.Kind, h.Syscall.Summary, forWhom(caller, h.Syscall), h.Score, h.Why})
	}
	return out, err
}

// forWhom returns who may call a syscall, if the caller may not.
func forWhom(caller *principal.Principal, s *kernel.Syscall) string {
	if s.ForOwner() && !caller.Allows(s.Target()) {
		return "owner only"
	}
	return ""
}

type callInput struct {
	Type message.Type   `json:"type" aliases:"name,syscall" jsonschema:"minLength=1,maxLength=256" jsonschema_description:"The syscall to call."`
	Data jsontext.Value `json:"data,omitempty" aliases:"payload,args,arguments,input,params" jsonschema_description:"What it takes; Syscall.Describe has the schema. Default: {}."`
}

// call is answered by the kernel: see [kernel.ThroughType].
var call = kernel.DefineQuery[callInput, jsontext.Value](kernel.Definition{
	Type:    kernel.ThroughType,
	Summary: "Call any syscall by its name. The reply is that of the syscall, and so are all rules.",
	Input:   schema.Input[callInput]().Example(`{"type":"Memory.Get","data":{"key":"notes/1"}}`),
	Output:  schema.Any,
	Presentation: kernel.Presentation{
		Title: "Call any syscall",
		Words: "invoke, dispatch, run a tool by name, call by name, execute a tool, run any command, call a function, call another syscall",
		Errors: []kernel.ErrorDefinition{
			{Code: 404, When: "no syscall has this type"},
			{Code: 422, When: "it is a command, and was sent with kind query"},
		},
	},
	Behavior: kernel.Behavior{Effect: kernel.Delegated},
	Access:   principal.ForAll, // the syscall that it calls is checked itself
}).BindHandler(func(ctx context.Context, m message.Message, emit kernel.Emit) {
	kernel.Fail(ctx, m, emit, message.Errorf(500, "%s has no handler of its own", m.Type))
})
