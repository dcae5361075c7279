// Package lifecycle is the module of a kernel's life: how it is doing, what it serves, how
// a request is called off, how a backup is made, and how the kernel is asked to end.
//
// The program that runs the kernel knows the answers, and gives them in the [Options]. One
// that has no life of its own, because it ends with its input, leaves out Shutdown.
package lifecycle

import (
	"context"
	"io"

	"kernos/kernel"
	"kernos/kernel/connection"
	"kernos/kernel/principal"
	"kernos/message"
	"kernos/store/archive"
)

// Options describe the kernel, as the program that runs it knows it.
type Options struct {
	// Registry is what the kernel serves.
	Registry *kernel.Registry

	// Status reports how the kernel is doing. It fills in everything but what is served and what
	// waits in the kernel's queues. Nil means that no more is known.
	Status func() Status

	// Shutdown begins the end and does not wait for it: what runs is finished, and this
	// call is among it, so its reply is sent. It may be called more than once. Nil means
	// that the kernel can't be asked to end.
	Shutdown func()

	// Backup writes a backup of the state. The key, which may be nil, is put into it. Nil means
	// that there is no state.
	Backup func(ctx context.Context, key *archive.Key, out io.Writer) (Backup, error)
}

// Module returns the module.
func Module(o Options) kernel.Module {
	return kernel.Module{
		Name:    "kernel",
		Version: "1.0.0",
		Summary: "The kernel as a process: its status, its modules, what needs a person, cancelling requests, backups, and shutting down.",
		Domains: []string{"Kernel"},
		Syscalls: []kernel.Syscall{
			status.Bind(o.status), attention.Bind(o.attention), modules.Bind(o.modules), cancel.Bind(cancelRequest), shutdown.Bind(o.shutdown),
			backup.BindStream(o.backup),
		},
	}
}

type nothing struct{}

type shutdownOutput struct {
	Success bool `json:"success" jsonschema_description:"True: the shutdown has begun. Running requests are finished first."`
}

var shutdown = kernel.DefineCommand[nothing, shutdownOutput](kernel.Definition{
	Type:    kernel.ShutdownType,
	Summary: "Shut the kernel down: it accepts nothing new, finishes running requests, and exits.",
	Presentation: kernel.Presentation{
		Title: "Shut the kernel down",
		Words: "stop, halt, quit, exit, power off, turn it off, switch it off, shut everything down, stop the server, bring the daemon down, close down, " +
			"stop kernos",
		Errors: []kernel.ErrorDefinition{{Code: 403, When: "the kernel runs inside the calling program"}},
	},
	Behavior: kernel.Behavior{Effect: kernel.Transient},
	Access:   principal.ByName,
})

func (o Options) shutdown(context.Context, nothing) (shutdownOutput, error) {
	if o.Shutdown == nil {
		return shutdownOutput{}, message.Errorf(403, "This kernel runs inside the calling program and ends with its input; only a daemon (kernos serve) can be shut down")
	}
	o.Shutdown()
	return shutdownOutput{Success: true}, nil
}

type cancelInput struct {
	ID message.ID `json:"id" jsonschema:"minLength=1" jsonschema_description:"metadata.id of a request that was sent over the same connection and isn't answered yet."`
}

type cancelOutput struct {
	Cancelled bool `json:"cancelled" jsonschema_description:"True if the request was running or waiting to run. It gets an outcome of its own: an error with code 499, unless it finished at that moment."`
}

var cancel = kernel.DefineCommand[cancelInput, cancelOutput](kernel.Definition{
	Type:         kernel.CancelType,
	Summary:      "Cancel a request of the same connection that is still running.",
	Presentation: kernel.Presentation{Title: "Cancel a running request", Words: "abort a call, stop the call i made, break off a request, never mind that call, interrupt a request, this call takes too long"},
	Behavior:     kernel.Behavior{Effect: kernel.Transient},
	Access:       principal.ForAll,
})

// cancelRequest cancels a slow request, or one that waits behind slow ones. Any other
// request is answered before a cancellation of it is read.
func cancelRequest(ctx context.Context, in cancelInput) (cancelOutput, error) {
	peer, ok := connection.PeerOf(ctx)
	return cancelOutput{Cancelled: ok && peer.Cancel(in.ID)}, nil
}
