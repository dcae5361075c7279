// Package introspect is the kernel's own module: it echoes, and it says what there
// is to call.
package introspect

import (
	"kernos/kernel"
)

// Module returns the module, which describes what is in the registry.
func Module(r *kernel.Registry) kernel.Module {
	return kernel.Module{
		Name:    "syscall",
		Version: "1.0.0",
		Summary: "The kernel itself: what there is to call, and whether it answers.",
		Syscalls: []kernel.Syscall{
			Echo,
			Ping,
			Describe(r),
			OlderDescribe(r),
			List(r),
		},
	}
}
