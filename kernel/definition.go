package kernel

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"kernos/kernel/principal"
	"kernos/message"
	"kernos/schema"
)

// A Definition describes a syscall. Everything that people and programs see of a syscall
// comes from it: routing, validation, listings, help, guidance, the hash. A plain syscall states
// these six fields; the rest is for what differs from most syscalls.
type Definition struct {
	Type    message.Type
	Kind    message.Kind      // KindCommand, or KindQuery for a syscall that changes nothing
	Summary string            // what it does, in one sentence
	Input   *schema.Schema    // the schema of a request's data; [schema.ExampleOf] makes an example
	Output  *schema.Schema    // the schema of a reply's data
	Emits   []EventDefinition // the events that may come before the outcome

	Presentation
	Behavior
	Journaled

	Access principal.Access // which presets of tokens include it: ForAgents, ForHandlers, ForPeople, ByName, OwnerOnly or ForAll
}

// Behavior is how the calls of a syscall run, and what they do and reach.
type Behavior struct {
	Runs    RunMode       // Inline, Slow or Endless
	Timeout time.Duration // how long a call may take; 0 means the kernel's default
	Reaches []Reach       // what calls are there to reach; what single parameters reach is declared with [Reaching]

	// Foreseen returns what a call with this data will ask [Reaching] for, or why it would fail. Job.Start asks for it while
	// the call is only planned, since an approval can't be waited for when it runs. Nil means nothing.
	Foreseen func(data json.RawMessage) ([]Reached, error)

	Effect Effect // InStore, External, Transient or Delegated
	Repeat Repeat // what running a command a second time with the same data does

	// Destroys means that a command takes something away that no other syscall brings back. Clients
	// may ask a person first.
	Destroys bool

	// Stateless means that replies and events depend on the request alone: they show nothing that could be lost, and
	// don't wait for [Options.Fence].
	Stateless bool

	// Short means that Output describes every reply: a reply fits into a line if its request
	// does, or has a reference of its own for what may not. Other replies may be a
	// [Reference].
	Short bool

	// Volatile names the members of the reply that differ from one call to the next although
	// nothing has changed, such as headers.date, or entries.modified for all entries of a list;
	// * stands for all members. A replay doesn't compare them.
	Volatile []string
}

// Journaled is what the journal keeps of the calls of a syscall.
type Journaled struct {
	Recording Recording    // Always or InWorkflows
	Answers   AnswerSource // Fresh, FromStore or FromJournal

	// Redact returns the data of a request as it may be kept, for secrets that the
	// schema can't mark because it depends on other fields whether they are any. It is also
	// asked about other messages of this type that come from connections, whose data may be
	// anything. It must not change the data. Nil means that the schema marks all of them.
	Redact func(data json.RawMessage) json.RawMessage

	// Brief returns what is recorded of a request or a reply in place of its data, which is
	// kept elsewhere. Nil means all of it.
	Brief func(data json.RawMessage) json.RawMessage
}

// Visibility decides whether listings show a syscall. It can be called either way.
type Visibility byte

const (
	Listed Visibility = iota
	Hidden            // kept out of listings and out of the hash
)

// A RunMode decides how the calls of a syscall run beside others of the same connection.
type RunMode byte

const (
	Inline  RunMode = iota // the next message of the connection waits until the call is done
	Slow                   // waits for something outside the kernel: later messages are handled meanwhile, and the outcome comes when it is ready
	Endless                // slow, and runs until it is cancelled: with the cause ErrStopping when the kernel stops
)

// An AnswerSource is where the answers of a syscall come from. It decides how they are
// recorded, and which of them may go to a blob when they don't fit into a line.
type AnswerSource byte

const (
	Fresh       AnswerSource = iota // made for this call: recorded, and kept as a blob only without secrets
	FromStore                       // given to be kept: may go to a blob whatever it looks like
	FromJournal                     // read from the journal, or made of definitions: the journal must not grow by that, so events are not recorded, and replies without their data
)

// An Effect is where the effect of a syscall is.
type Effect byte

const (
	// InStore: in the store, one with the reply; or there is none.
	InStore Effect = iota

	// External: in a file, a server, a program. A command with an idempotency key is noted
	// on disk before its handler runs, so that a retry after a crash or a timeout gets the error that
	// the outcome is not known, and is not run again.
	External

	// Transient: in the connection that the call came over, or in the life of the kernel. A
	// recorded call is not run again: it would mean something else now.
	Transient

	// Delegated: in what the syscall, a query, calls: it may call commands when it is sent as
	// a command.
	Delegated
)

// A Repeat is a set of promises about running a command a second time with the same data. Without
// any, a second run may do more than the first.
type Repeat byte

const (
	// Idempotent: a second run changes nothing more, unless something else has changed in between.
	// Descriptions for clients have it.
	Idempotent Repeat = 1 << iota

	// Retried: an External effect may happen twice. A retry of a command whose outcome isn't known
	// runs it again; without this promise, the retry gets the error that the outcome isn't known.
	Retried
)

// Has reports whether the set has a promise.
func (r Repeat) Has(promise Repeat) bool { return r&promise != 0 }

// RetriedIf returns Retried, or no promise.
func RetriedIf(retried bool) Repeat {
	if retried {
		return Retried
	}
	return 0
}

// Recording decides which calls of a syscall are recorded.
type Recording byte

const (
	// Always: all of them.
	Always Recording = iota

	// InWorkflows: all but the queries that the owner sends, also from the console, without a
	// correlation and without a causation, and what these ask of such syscalls. It is for syscalls that only read, so
	// that looking doesn't fill the journal. Commands, other nested calls, what other tokens send, and what fails are
	// always recorded.
	InWorkflows
)

// unrecorded reports whether a request for the syscall, and the reply to it, isn't recorded: see [Recording]. A query
// of any syscall that a client of the owner repeats by itself isn't recorded either.
func (s *Syscall) unrecorded(m *message.Message, from Sender) bool {
	switch {
	case s == nil || m.Kind != message.KindQuery:
		return false
	case m.Metadata.Repeated && from.Principal() == principal.TheOwner():
		return true
	}
	return s.Recording == InWorkflows && m.Metadata.Correlation == "" && m.Metadata.Causation == "" && from.Principal().IsPerson()
}

// An EventDefinition describes an event that a syscall emits.
type EventDefinition struct {
	Type    message.Type // a name in the past tense: Job.Completed
	Summary string

	// Unrecorded events are sent to the caller only: what they report is recorded when it is whole.
	Unrecorded bool
}

// An ErrorDefinition describes an error that a syscall gives.
type ErrorDefinition struct {
	Code int
	When string // the condition in a few words: the key doesn't exist
}

// SettingChanged is the event that records a change of a setting of the kernel: {name, from, to}.
// Nothing but the kernel can record it; retention by age keeps it.
const SettingChanged message.Type = "Kernel.SettingChanged"

// Progressed is the event that [Stream.Progress] emits. Every syscall may.
const Progressed message.Type = "Syscall.Progressed"

// Logged is the event of a line that a handler has logged, {level, text}: see [Call.Log].
const Logged message.Type = "Syscall.Logged"

// ErrorOccurred is the event that [Stream.Recoverable] emits: {code, message}. Every syscall may.
const ErrorOccurred message.Type = "Syscall.ErrorOccurred"

// Universal reports whether every syscall may emit an event.
func Universal(t message.Type) bool { return t == Progressed || t == ErrorOccurred }

// These requests go ahead of queued messages of their connection.
const (
	CancelType   message.Type = "Syscall.Cancel"
	ShutdownType message.Type = "Syscall.Shutdown"
)

// An Emit takes the messages of a handler: any number of events, then one outcome.
// It may be called from several goroutines.
type Emit func(message.Message)

// A Handler answers one message. It emits events that its definition names, and then
// exactly one reply or error, before it returns. The kernel does the rest: ids,
// times and lineage of what is emitted, a missing or a second outcome, a panic, a
// deadline.
//
// The message's data is valid until the handler returns; a handler that keeps it
// must copy it.
type Handler func(ctx context.Context, m message.Message, emit Emit)

// A Syscall is a definition with the function that does it, and with where it comes from.
type Syscall struct {
	Definition
	Handler Handler
	Provenance
}

// Provenance is where a syscall comes from. The zero value is this program.
type Provenance struct {
	Provider Provider        // BuiltIn, Program, Code or Mounted
	Author   principal.Claim // who has registered it, if Provider is Code
	Sessions []string        // whose rules decide about what the code calls, since it came from them

	// Allowed means that the owner lets sessions call it without asking, although it acts outside of
	// the kernel. The rules of a session come first. It changes together with the definition, so that what is
	// allowed is what the definition describes: one that has changed is no longer allowed.
	Allowed bool
}

// A Provider is what answers the calls of a syscall.
type Provider byte

const (
	BuiltIn Provider = iota // a handler of this program
	Program                 // a program on a connection: it may emit events that Emits does not name
	Code                    // code that was registered, which may too
	Mounted                 // a server that the owner has mounted, which may too
)

// BindHandler makes a syscall of the definition and a raw handler.
func (d Definition) BindHandler(h Handler) Syscall { return Syscall{Definition: d, Handler: h} }

// A Module is a set of syscalls that belong together, as one folder of capability/ has them.
type Module struct {
	Name     string // lower case: memory
	Version  string // a semantic version
	Summary  string
	Domains  []string // what belongs to the module, such as Memory: programs and code can't register syscalls there
	Syscalls []Syscall
}

// Described returns the module as data: its syscalls can be listed and described, and calls of them fail. So a module
// may be made for it with nothing opened.
func (m Module) Described() Module {
	m.Syscalls = slices.Clone(m.Syscalls)
	for i := range m.Syscalls {
		m.Syscalls[i].Handler = func(_ context.Context, m message.Message, emit Emit) {
			emit(m.Fail(message.Errorf(503, "%s is described here, and not served", m.Type)))
		}
	}
	return m
}
