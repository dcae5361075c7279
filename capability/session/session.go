// Package session is the module of conversations: a session is a stream of cognitive messages
// (input, reply, reasoning, tool-calls, tool-results, system, …) in which a model thinks and calls
// syscalls. A turn belongs to the kernel and not to a connection: it continues when its caller has
// left and when the kernel was restarted.
//
//	sessions := session.New(&session.Options{Store: s, Find: tokens.Find})
//	registry.Add(sessions.Module())
//	k := kernel.New(registry, &kernel.Options{Rules: sessions.Rules, …})
//	sessions.Run(ctx, k)
//
// Invariants:
//
//	T1  the effect of a call happens at most once
//	T2  every call that a model is shown has exactly one result, or is pending
//	T3  what was acknowledged survives
//	T4  seq has no gaps
//	T5  a disconnect cancels nothing
//
// # Goroutines
//
//   - A call of a turn, one per call of a step: the turn's worker (package work) starts it, and it ends when the call
//     has its outcome.
package session

import (
	"cmp"
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"kernos/internal/recent"
	"kernos/kernel"
	"kernos/kernel/principal"
	"kernos/message"
	"kernos/schema"
	"kernos/store"
	"kernos/work"
)

// Blobs keeps what is too large for a message.
type Blobs interface {
	kernel.BlobPutter
	kernel.BlobOwners

	// Beginning fails if the pointer isn't to a blob that the caller of ctx may fetch, as that of [kernel.Blobs].
	Beginning(ctx context.Context, p message.BlobPointer, n int) (first []byte, size int64, err error)
}

// Options are the settings of Sessions.
type Options struct {
	Store store.Store

	// Find returns the principal of an id as it is now, or nil if it has ended. A session acts
	// for the principal that has created it.
	Find func(principal.ID) (*principal.Principal, error)

	// Blobs takes texts, files and results that are too large for a message, and Open returns
	// what a pointer points to. Nil means that they stay in their messages.
	Blobs Blobs
	Open  func(context.Context, message.BlobPointer) ([]byte, error)

	// ContextTokens returns how many tokens a conversation with a model may have; 0 means that this isn't
	// known. The error is a 404 if the model isn't configured. Nil means that all models are, and
	// that nothing is known of them.
	ContextTokens func(model string) (tokens int, err error)

	// Opened is closed when the store has been opened. Nil means that it is open.
	Opened <-chan struct{}

	Slots int              // how many turns run at once; 0 means 1,000
	Grace time.Duration    // how long running turns may continue when the kernel stops
	Now   func() time.Time // nil means time.Now
	Log   *slog.Logger
}

// Sessions keeps sessions and runs their turns. It is safe for concurrent use.
type Sessions struct {
	opts   Options
	queue  *work.Queue
	kernel atomic.Pointer[kernel.Kernel] // set by Run
	ids    kernel.IDs

	mu    sync.Mutex
	live  map[string]*liveSession // sessions whose turn runs, or that are watched
	ended counts                  // turns, since the kernel was started

	schemas *recent.Cache[*schema.Schema] // keys are the texts
}

const defaultSlots = 1000

type counts struct{ done, failed uint64 }

// New returns the sessions of a store. The caller calls Run.
func New(o *Options) *Sessions {
	x := &Sessions{opts: *o, live: make(map[string]*liveSession), schemas: recent.New[*schema.Schema](keptSchemas)}
	if x.opts.Now == nil {
		x.opts.Now = time.Now
	}
	x.opts.Log = cmp.Or(x.opts.Log, slog.New(slog.DiscardHandler))
	slots := cmp.Or(o.Slots, defaultSlots)
	x.queue = work.New(&work.Options{
		Store: o.Store, Letter: queueLetter, Work: x.work, Slots: slots, Grace: o.Grace, Now: x.opts.Now, Log: x.opts.Log,
	})
	return x
}

// Begin lets turns be started with a kernel, before Run runs them.
func (x *Sessions) Begin(k *kernel.Kernel) { x.kernel.Store(k) }

// Run runs turns with a kernel until ctx is done and those that run have stopped. Before Begin or
// Run is called, sessions can be read and not be changed.
func (x *Sessions) Run(ctx context.Context, k *kernel.Kernel) {
	x.Begin(k)
	defer x.kernel.Store(nil)
	if x.opts.Opened != nil {
		select {
		case <-x.opts.Opened:
		case <-ctx.Done():
			return
		}
	}
	x.queue.Run(ctx)
}

// running returns the kernel that runs turns, or a 503.
func (x *Sessions) running() (*kernel.Kernel, error) {
	if k := x.kernel.Load(); k != nil {
		return k, nil
	}
	return nil, message.Errorf(503, "This kernel ends with its caller, and runs no sessions; start one that stays: kernos serve")
}

// Module returns the module.
func (x *Sessions) Module() kernel.Module {
	return kernel.Module{
		Name:    "session",
		Version: "1.0.0",
		Summary: "Conversations with a model that calls syscalls: a stream of messages that can be read, resumed and branched.",
		Domains: []string{"Session", "Agent"},
		Syscalls: []kernel.Syscall{
			create.Bind(x.create), get.Bind(x.get), list.Bind(x.list), messages.Bind(x.messages),
			appendTo.Bind(x.append), export.Bind(x.export), remove.Bind(x.remove), watch.BindStream(x.watch),
			defineType.Bind(x.defineType), send.BindStream(x.send), cancel.Bind(x.cancel), resume.Bind(x.resume),
			decide.Bind(x.decide), compact.Bind(x.compact), fork.Bind(x.fork), rewind.Bind(x.rewind),
			ask.BindStream(x.ask), listApprovals.Bind(x.approvals), revoke.Bind(x.revoke),
		},
	}
}

// Stats are the figures of sessions for the operator.
type Stats struct {
	Running      int // turns
	Waiting      int // open turns that wait for a decision, a result or Session.Continue
	Done, Failed uint64
}

// Stats returns the figures of now. Sessions without an open turn aren't looked at.
func (x *Sessions) Stats() (s Stats, err error) {
	x.mu.Lock()
	s.Done, s.Failed = x.ended.done, x.ended.failed
	x.mu.Unlock()
	s.Running = x.queue.Stats()
	for e, err := range x.opts.Store.Scan(store.Prefix(key(keyTurn))) {
		if err != nil {
			return s, err
		}
		if t, err := readTurn(e.Value); err == nil && t.Waiting {
			s.Waiting++
		}
	}
	return s, nil
}
