package introspect

import (
	"context"

	"github.com/go-json-experiment/json"

	"kernos/kernel"
	"kernos/kernel/principal"
	"kernos/message"
	"kernos/schema"
)

type listInput struct{}

type listOutput struct {
	Syscalls  []message.Type          `json:"syscalls" jsonschema_description:"The types of all syscalls that the caller may call, sorted."`
	Summaries map[message.Type]string `json:"summaries,omitzero" jsonschema_description:"What each of them does; absent if that is more than fits into a line. Then Syscall.Search finds syscalls by words."`
	kernel.Narrowed
}

var list = kernel.DefineQuery[listInput, kernel.Raw](kernel.Definition{
	Type:    "Syscall.List",
	Summary: "List the types of all syscalls, with a summary of each. Syscall.Describe reports what one of them takes and returns.",
	Presentation: kernel.Presentation{Title: "List syscalls", Words: "help, man, docs, discover, available tools, commands, abilities, features, what is possible, what can you do, what can i call, " +
		"which tools are there, list all tools, which functions exist, which commands are there, everything that can be called, overview of the api"},
	Output:    schema.Output[listOutput](),
	Journaled: kernel.Journaled{Recording: kernel.InWorkflows},
	Access:    principal.ForAll,
})

// maxSummaries is how many bytes the list may have with summaries, so that it fits into a line.
const maxSummaries = 14 << 10

func (c catalog) list(ctx context.Context, _ listInput) (kernel.Raw, error) {
	view := c.registry.For(kernel.PrincipalOf(ctx))
	out := listOutput{Syscalls: view.Types(), Summaries: make(map[message.Type]string), Narrowed: kernel.Narrow(ctx, (*principal.Principal).IsOwner)}
	size := 0
	for s := range view.Syscalls() {
		out.Summaries[s.Type] = s.Summary
		size += 2*len(s.Type) + len(s.Summary) + len(`"","":"",`)
	}
	if size > maxSummaries {
		out.Summaries = nil
	}
	text, err := json.Marshal(out, json.Deterministic(true))
	return kernel.Raw(text), err
}
