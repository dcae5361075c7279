// Package kernel routes messages to the syscalls that answer them.
//
// A syscall is data beside a function: a [Definition] and a [Handler]. Typed
// functions become syscalls through [Query] and [Command]; a [Module] is a list of
// syscalls; a [Registry] holds the modules; a [Kernel] answers messages with them:
//
//	registry, err := kernel.NewRegistry(weather.Module(), dice.Module())
//	k := kernel.New(registry, nil)
//	k.Handle(ctx, request, func(m message.Message) { … })
//
// The kernel validates what comes in, gives every answer its lineage, keeps
// deadlines, contains panics, and makes sure that each command and each query gets
// exactly one outcome. It does no input or output of its own.
//
// Package connection serves the messages of a connection: it keeps their order, and runs slow
// calls beside the others.
//
// # Goroutines
//
//   - A call that isn't run by the loop of a connection (a nested call, a call of a Go program, a step of work), one
//     per call: [Call.RunWithin] starts it, and it ends when the handler has returned. A handler that doesn't return
//     after its deadline is left behind: each such is logged, and their number has no bound.
//   - A function that waits for the decision about a commit, one per call that has one: effect.go starts it, and it
//     ends when the function has returned.
//   - Ending a call whose event can't be shown, for a moment: handle.go starts it.
//   - Keeping a blob for a reply, one per blob: fit.go starts it, and it ends when the blob is kept.
//   - What a deadline and the end of a context cause, for a moment: the timer of [Call.RunHere], and the functions that
//     are given to [Call.AfterFunc].
package kernel

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"kernos/kernel/idempotency"
	"kernos/kernel/principal"
	"kernos/message"
	"kernos/store"
)

// DefaultTimeout is how long a call may take if neither its definition nor the
// kernel's options set it.
const DefaultTimeout = 30 * time.Second

// Options are the settings of a Kernel. The zero value is usable.
type Options struct {
	// Timeout is how long a call may take if its definition doesn't set it. 0 means
	// DefaultTimeout.
	Timeout time.Duration

	// Blobs takes what is too large for a line. Nil means that such a reply is an
	// error.
	Blobs Blobs

	// ReadBlob is the syscall that reads a blob, which an excerpt of a reply names; "" if there is none.
	ReadBlob message.Type

	// Store keeps what syscalls change. Nil means that those that change something
	// durable fail, and commands with an idempotency key too.
	Store store.Store

	// Fence is for a store whose changes are visible before they are sure to last: it returns a commit that is decided
	// when everything applied so far is, as [store.Store] has it in Barrier, and every answer waits for one: see fence.go.
	// It must not block. Nil means that answers wait for the changes of their own calls only.
	Fence func() *store.Commit

	// Recorder keeps every message that passes. Nil means that none are kept.
	Recorder Recorder

	// Workflow returns the workflow of a recorded message that a principal may see, or "". A
	// message that names it as its causation, and no correlation, belongs to that workflow. Nil
	// means that recorded messages aren't looked up.
	Workflow func(message.ID, *principal.Principal) string

	// Rules decide about what sessions cause. Nil means that sessions have no rules.
	Rules Rules

	// Needs are what an unknown type may stand for that no syscall does: its error has the advice of the first need with a word
	// of the type.
	Needs []Need

	// Absent is [Kernel.Absent]. Nil means that no type is known to be absent.
	Absent func(t message.Type, caller *principal.Principal) string

	// IdempotencyTTL is how long the outcome of a command with an idempotency key is
	// kept. 0 means DefaultIdempotencyTTL.
	IdempotencyTTL time.Duration

	// InFlight is how many slow calls of one connection run at once, and InFlightAll those
	// of all connections. 0 means DefaultInFlight and DefaultInFlightAll.
	InFlight, InFlightAll int

	// Log is for the operator: what callers must not see. Nil means silence.
	Log *slog.Logger
}

// Rules are the rules of sessions. An error refuses what it is asked about.
type Rules interface {
	// Call decides about a valid request that a session has caused. Nested states that the handler
	// of another call has sent the request.
	Call(session string, s *Syscall, m *message.Message, nested bool) error

	// Reach decides about what a call that a session has caused is about to reach.
	Reach(session string, c *Call, r Reached) error
}

// A Kernel answers messages. It is safe for concurrent use.
type Kernel struct {
	registry *Registry
	opts     Options
	ids      IDs
	begun    time.Time
	runs     *idempotency.Runs // nil without a store
	writers  *writers
	limits   atomic.Pointer[Limits]

	deprecated sync.Map // what was logged about deprecated forms

	connections Connections
	kept        *Budget

	life context.Context // ends when the kernel stops
	stop context.CancelFunc
}

// New returns a kernel that serves what is in the registry, now and later. Nil
// options mean defaults.
func New(r *Registry, opts *Options) *Kernel {
	k := &Kernel{registry: r, begun: time.Now(), writers: newWriters()}
	if opts != nil {
		k.opts = *opts
	}
	if k.opts.Store != nil {
		k.runs = idempotency.New(k.opts.Store, cmp.Or(k.opts.IdempotencyTTL, DefaultIdempotencyTTL))
	}
	k.SetLimits(Limits{Timeout: k.opts.Timeout, InFlight: k.opts.InFlight, InFlightAll: k.opts.InFlightAll})
	k.kept = NewBudget("watches and kept streams", 256<<20, 64<<20)
	k.life, k.stop = context.WithCancel(context.Background())
	k.opts.Log = cmp.Or(k.opts.Log, slog.New(slog.DiscardHandler))
	return k
}

// Registry returns the registry that the kernel serves.
func (k *Kernel) Registry() *Registry { return k.registry }

// Kept returns the budget of what lasts: calls that don't end by themselves, and what is kept of
// streams.
func (k *Kernel) Kept() *Budget { return k.kept }

// Stamp gives a message that is about to be sent an id and a time, where it has
// none.
func (k *Kernel) Stamp(m *message.Message) { k.stampAt(time.Now(), m) }

func (k *Kernel) stampAt(now time.Time, m *message.Message) {
	if m.Metadata.ID == "" {
		m.Metadata.ID = message.ID(k.ids.Next(now))
	}
	if m.Metadata.Timestamp == 0 {
		m.Metadata.Timestamp = now.UnixMilli()
	}
}

// ErrStopping is the cause with which the context of an endless call ends when the kernel
// stops.
var ErrStopping = errors.New("the kernel is shutting down")

// Stop cancels the calls of endless syscalls. All other calls are finished. It is the
// connections that take nothing new.
func (k *Kernel) Stop() { k.stop() }

// UntilStop returns the context of an endless call: it ends when the kernel stops.
func (k *Kernel) UntilStop(parent context.Context) (ctx context.Context, release func()) {
	ctx, cancel := context.WithCancelCause(parent)
	forget := context.AfterFunc(k.life, func() { cancel(ErrStopping) })
	return ctx, func() {
		forget()
		cancel(nil)
	}
}

// Limits of slow calls, if the options don't set them.
const (
	DefaultInFlight    = 64
	DefaultInFlightAll = 4096
)

// Limits are settings that can be changed while a kernel runs. They have the meaning of the
// options of the same names.
type Limits struct {
	Timeout               time.Duration
	InFlight, InFlightAll int
}

// Limits returns the limits in force.
func (k *Kernel) Limits() Limits { return *k.limits.Load() }

// SetLimits puts limits into force, for the calls that begin from now on. Those that are 0
// are the defaults.
func (k *Kernel) SetLimits(l Limits) {
	l.Timeout = cmp.Or(l.Timeout, DefaultTimeout)
	l.InFlight = cmp.Or(l.InFlight, DefaultInFlight)
	l.InFlightAll = cmp.Or(l.InFlightAll, DefaultInFlightAll)
	k.limits.Store(&l)
}
