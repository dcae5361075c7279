package kernel

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"kernos/message"
	"kernos/schema"
)

// A Definition says what a syscall is. Everything that people and programs see of a
// syscall comes from it: routing, validation, listings, help, guidance, the hash.
type Definition struct {
	Type    message.Type
	Kind    message.Kind   // KindCommand, or KindQuery for a syscall that changes nothing
	Summary string         // one sentence that says what it does
	Input   *schema.Schema // of the request's data
	Output  *schema.Schema // of the reply's data

	Emits   []EventDefinition // the events that may come before the outcome
	Aliases []message.Type    // other names; answered, but listed nowhere

	// Hidden keeps a syscall out of listings and out of the hash. It can be called.
	Hidden bool

	// Slow marks a syscall that waits for something outside the kernel. It does not
	// hold up the messages behind it on its connection, and its outcome comes when it
	// is ready.
	Slow bool

	// Endless marks a slow syscall that goes on until it is cancelled. It is, with the
	// cause [ErrStopping], when the kernel stops.
	Endless bool

	// Streams allows the syscall to emit events that Emits does not name: it is served by
	// a program that nobody has asked for them.
	Streams bool

	// Recalls says that what the syscall answers is in the journal already: its events
	// are not recorded, and its replies without their data.
	Recalls bool

	// Stored says that what the syscall replies was given to be kept: a reply that does not
	// fit into a line may go to a blob whatever it looks like.
	Stored bool

	// Outside says that the syscall, a command, has an effect that is not in the store: a
	// file, a server, a program. With an idempotency key, that it begins is on disk before
	// its handler runs, so that a retry after a crash is told that the outcome is not known,
	// and is not run again.
	Outside bool

	// Unrepeatable says that the syscall concerns the connection that it comes over, or the
	// life of the kernel. A recorded call of it is not run again: it would mean something
	// else now.
	Unrepeatable bool

	// Redact returns the data of a request as it may be kept, for secrets that the
	// schema can't mark because it depends on other fields whether they are any. It is also
	// asked about other messages of this type that come from outside, whose data may be
	// anything. It must not change the data. Nil means that the schema says it all.
	Redact func(data json.RawMessage) json.RawMessage

	// Guidance says, in a sentence for the caller, what to do about data that does not fit
	// Input; "" if it has nothing to say. The error is an *schema.Invalid. Nil means that
	// the descriptions in the schema say it all.
	Guidance func(err error) string

	// Executes says that the syscall, a query, may call commands when it is sent as a
	// command.
	Executes bool

	// Timeout is how long a call may take. 0 means the kernel's default.
	Timeout time.Duration
}

// An EventDefinition says what an event is that a syscall emits.
type EventDefinition struct {
	Type    message.Type // in the past tense: Job.Completed
	Summary string
}

// Progressed is the event that [Stream.Progress] emits. Every syscall may.
const Progressed message.Type = "Syscall.Progressed"

// An Emit takes what a handler has to say: any number of events, then one outcome.
// It may be called from several goroutines.
type Emit func(message.Message)

// A Handler answers one message. It emits events that its definition names, and then
// exactly one reply or error, before it returns. The kernel sees to the rest: ids,
// times and lineage of what is emitted, a missing or a second outcome, a panic, a
// deadline.
//
// The message's data is valid until the handler returns; a handler that keeps it
// must copy it.
type Handler func(ctx context.Context, m message.Message, emit Emit)

// A Middleware wraps every handler of a kernel.
type Middleware func(Handler) Handler

// A Syscall is a definition with the function that does it.
type Syscall struct {
	Definition
	Handler Handler

	// Later, if it is not nil, begins a call of a slow syscall without waiting for anything,
	// and returns true: the outcome is emitted by whoever has it, wherever that is, and emit
	// does not wait either. If it returns false it has done nothing, and Handler runs.
	Later func(ctx context.Context, m message.Message, emit Emit) bool
}

// BindHandler makes a syscall of the definition and a raw handler.
func (d Definition) BindHandler(h Handler) Syscall { return Syscall{Definition: d, Handler: h} }

// A Module is a set of syscalls that belong together, as one folder of capability/
// has them. A module of [Unbound] definitions is data: it can be listed and described with
// nothing opened. Bind gives it its handlers.
type Module struct {
	Name     string // lower case: memory
	Version  string // a semantic version
	Summary  string
	Syscalls []Syscall
}

// Unbound returns definitions as syscalls without handlers.
func Unbound(definitions ...Definition) []Syscall {
	syscalls := make([]Syscall, len(definitions))
	for i, d := range definitions {
		syscalls[i].Definition = d
	}
	return syscalls
}

// Bind returns the module with these syscalls in the places of its definitions of the same
// types. It panics if a definition is left without a handler, or a syscall belongs to none:
// the module and its handlers are written by the same hand.
func (m Module) Bind(syscalls ...Syscall) Module {
	m.Syscalls = slices.Clone(m.Syscalls)
	for _, s := range syscalls {
		i := slices.IndexFunc(m.Syscalls, func(d Syscall) bool { return d.Type == s.Type })
		if i < 0 {
			panic("module " + m.Name + " does not define " + string(s.Type))
		}
		m.Syscalls[i] = s
	}
	for _, s := range m.Syscalls {
		if s.Handler == nil {
			panic("module " + m.Name + " has no handler for " + string(s.Type))
		}
	}
	return m
}
