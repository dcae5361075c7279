// Package introspect is the kernel's own module: it echoes, and it describes what can be
// called.
package introspect

import (
	"kernos/internal/ranked"
	"kernos/kernel"
)

// Module returns the module, which describes what is in the registry. Syscalls are found by the model
// that is inside, whichever is chosen for other texts: a search for one must take no longer than a call.
func Module(r *kernel.Registry) kernel.Module {
	c := catalog{r, ranked.NewMeaning(nil)}
	return kernel.Module{
		Name:    "syscall",
		Version: "1.0.0",
		Summary: "The kernel itself: which syscalls exist, what they take, and whether the kernel answers.",
		Domains: []string{"Syscall", "Sys"},
		Syscalls: []kernel.Syscall{
			echo, Ping, describe.Bind(c.describe), olderDescribe.Bind(c.olderDescribe), list.Bind(c.list),
			search.Bind(c.search), call,
		},
	}
}

// catalog answers from a registry.
type catalog struct {
	registry *kernel.Registry
	meaning  *ranked.Meaning
}
