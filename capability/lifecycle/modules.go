package lifecycle

import (
	"context"

	"kernos/kernel"
	"kernos/kernel/principal"
	"kernos/message"
)

// Catalog is what a kernel serves, in words, and the reply of Kernel.Modules.
type Catalog struct {
	Hash    string  `json:"hash" jsonschema_description:"Changes whenever the modules change in a way that callers can see."`
	Modules []Group `json:"modules" jsonschema_description:"The modules by name."`
	kernel.Narrowed
}

// A Group is one module.
type Group struct {
	Name     string  `json:"name" jsonschema_description:"Name of the module."`
	Version  string  `json:"version" jsonschema_description:"Its version."`
	Summary  string  `json:"summary" jsonschema_description:"What it is for."`
	Syscalls []Entry `json:"syscalls" jsonschema_description:"What it offers."`
}

// An Entry is one syscall.
type Entry struct {
	Type    message.Type `json:"type" jsonschema_description:"Type to call it by."`
	Kind    message.Kind `json:"kind" jsonschema:"enum=command,enum=query" jsonschema_description:"command if it may change something, query if not."`
	Summary string       `json:"summary" jsonschema_description:"What it does."`
}

var modules = kernel.DefineQuery[nothing, Catalog](kernel.Definition{
	Type:    "Kernel.Modules",
	Summary: "List the modules, with a summary of each of their syscalls.",
	Presentation: kernel.Presentation{
		Title:   "List modules",
		Words:   "namespaces, capabilities, which modules are loaded, parts of the kernel, what is built in, groups of syscalls, components",
		Columns: []string{"MODULE {name}", "VERSION {version}", "SUMMARY {summary}"},
	},
	Journaled: kernel.Journaled{Recording: kernel.InWorkflows, Answers: kernel.FromJournal},
	Access:    principal.ForAll,
})

// modules describes everything that the caller may call in one answer. It changes only when the
// registry does, so an answer that is too long for a line is the same blob each time.
func (o Options) modules(ctx context.Context, _ nothing) (Catalog, error) {
	view := o.Registry.For(kernel.PrincipalOf(ctx))
	all := Catalog{Hash: view.Hash(), Modules: []Group{}, Narrowed: kernel.Narrow(ctx, (*principal.Principal).IsOwner)}
	for _, m := range view.Modules() {
		g := Group{Name: m.Name, Version: m.Version, Summary: m.Summary}
		for _, s := range m.Syscalls {
			if s.Visibility != kernel.Hidden {
				g.Syscalls = append(g.Syscalls, Entry{s.Type, s.Kind, s.Summary})
			}
		}
		if len(g.Syscalls) > 0 {
			all.Modules = append(all.Modules, g)
		}
	}
	return all, nil
}
