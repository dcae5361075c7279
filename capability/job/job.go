// Package job is the module of work in the background: any syscall can be started as a job,
// now, later or on a schedule, alone or as steps, and continues when its caller has left and
// when the kernel was restarted.
//
//	jobs := job.New(&job.Options{Store: s, Find: tokens.Find})
//	registry.Add(jobs.Module())
//	jobs.Run(ctx, k)
//
// Invariants:
//
//	J1  a job that was acknowledged reaches one outcome: completed or failed
//	J2  what a job changes in the store happens once: it is in one batch with the outcome
//	J3  what a job does outside of the store is not repeated if its outcome is unknown, unless
//	    the job allows it
//	J4  a schedule starts one run for each of its times, or for several that were missed
//
// # Goroutines
//
//   - A step of a job, one per step that is ready: the job's worker (package work) starts it, and it ends when the step
//     has its outcome.
//   - Ending the jobs of principals that were revoked or have expired, one: [Jobs.Run] starts it, and it ends before
//     Run returns.
package job

import (
	"cmp"
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"kernos/internal/backoff"
	"kernos/internal/recent"
	"kernos/kernel"
	"kernos/kernel/principal"
	"kernos/message"
	"kernos/store"
	"kernos/work"
)

// Options are the settings of Jobs.
type Options struct {
	Store store.Store

	// Find returns the principal of an id as it is now, or nil if it has ended. Jobs act
	// for the principal that has started them.
	Find func(principal.ID) (*principal.Principal, error)

	// Blobs records which blobs results point to, so that they are kept. It may be nil.
	Blobs kernel.BlobOwners

	// Open returns the text that a pointer points to, for steps that use a result that was
	// too large for a line.
	Open func(context.Context, message.BlobPointer) ([]byte, error)

	// Known reports whether a program has served a syscall and may serve it again, so that jobs
	// wait for it. Nil means that no program does.
	Known func(message.Type) (bool, error)

	// Away returns why a syscall isn't served until the owner does something, as a clause for the owner or for others; ""
	// if that isn't so. A job waits for it without limit. Nil means that none is away.
	Away func(t message.Type, owner bool) string

	// Opened is closed when the store has been opened: before that there is nothing to run. Nil
	// means that it is open.
	Opened <-chan struct{}

	Slots int              // how many jobs run at once; 0 means 256
	Grace time.Duration    // how long running jobs may continue when the kernel stops
	Now   func() time.Time // nil means time.Now
	Log   *slog.Logger
}

// Jobs starts and runs jobs. It is safe for concurrent use.
type Jobs struct {
	opts   Options
	queue  *work.Queue
	kernel atomic.Pointer[kernel.Kernel] // set by Run
	ids    kernel.IDs

	schedules *recent.Cache[*schedule] // parsed schedules, by text and time zone

	mu       sync.Mutex
	live     map[string]*liveJob // jobs that run or are waited for
	finished counts              // jobs finished since the kernel was started
	ended    []principal.ID      // principals whose jobs have to be ended
	endings  chan struct{}       // has a token when ended isn't empty
}

type counts struct{ completed, failed uint64 }

// New returns the jobs of a store. The caller calls Run.
func New(o *Options) *Jobs {
	j := &Jobs{opts: *o, live: make(map[string]*liveJob), endings: make(chan struct{}, 1)}
	j.schedules = recent.New[*schedule](recent.Limits{Values: 1000, Bytes: 1 << 20, Each: 1 << 10})
	if j.opts.Now == nil {
		j.opts.Now = time.Now
	}
	j.opts.Log = cmp.Or(j.opts.Log, slog.New(slog.DiscardHandler))
	j.queue = work.New(&work.Options{
		Store: o.Store, Letter: queueLetter, Work: j.work, Tick: j.tick, Slots: o.Slots, Grace: o.Grace, Now: j.opts.Now, Log: j.opts.Log,
	})
	return j
}

// Begin lets jobs be started with a kernel, before Run runs them. Without it, requests that come
// before Run would be refused.
func (j *Jobs) Begin(k *kernel.Kernel) { j.kernel.Store(k) }

// Run runs jobs with a kernel until ctx is done and those that run have ended. Before Begin or Run
// is called, jobs can be looked at and not be started.
func (j *Jobs) Run(ctx context.Context, k *kernel.Kernel) {
	j.Begin(k)
	defer j.kernel.Store(nil)
	if j.opts.Opened != nil {
		select {
		case <-j.opts.Opened:
		case <-ctx.Done():
			return
		}
	}
	pause := backoff.Backoff{First: time.Second, Longest: time.Minute}
	for err := j.afterRestore(ctx, k); err != nil; err = j.afterRestore(ctx, k) {
		j.opts.Log.Error("jobs can't be read, so none begins; this is tried again", "error", err)
		if !pause.Wait(ctx.Done()) {
			return
		}
	}
	var ending sync.WaitGroup
	ending.Go(func() { j.watchEnded(ctx, k) })
	defer ending.Wait()
	j.queue.Run(ctx)
}

// running returns the kernel that runs jobs, or a 503.
func (j *Jobs) running() (*kernel.Kernel, error) {
	if k := j.kernel.Load(); k != nil {
		return k, nil
	}
	return nil, message.Errorf(503, "This kernel ends with its caller, and runs no jobs; start one that stays: kernos serve")
}

// Module returns the module.
func (j *Jobs) Module() kernel.Module {
	starting := start.Bind(j.start)
	starting.Redact = j.redact
	return kernel.Module{
		Name:    "job",
		Version: "1.0.0",
		Summary: "Work in the background: any syscall as a job, now, later or on a schedule, alone or as steps.",
		Domains: []string{"Job"},
		Syscalls: []kernel.Syscall{
			starting, status.Bind(j.status), list.Bind(j.list), result.Bind(j.result), wait.BindStream(j.wait),
			cancel.Bind(j.cancel), retry.Bind(j.retry), pause.Bind(j.pause), resume.Bind(j.resume),
		},
	}
}

// Stats are the figures of jobs for the operator. Jobs that wait aren't counted: there may be
// millions.
type Stats struct {
	Running           int
	Completed, Failed uint64 // jobs since the kernel was started
	Schedules         int
	Oldest            time.Duration // how long the first job waits whose time has come and that doesn't run; 0 if none does
	Held              bool          // the store was restored, and Job.Resume wasn't called since
}

// Stats returns the figures of now.
func (j *Jobs) Stats() (s Stats, err error) {
	j.mu.Lock()
	s.Completed, s.Failed = j.finished.completed, j.finished.failed
	j.mu.Unlock()
	s.Running = j.queue.Stats()
	for _, err := range j.opts.Store.Scan(store.Prefix(key(keySchedule))) {
		if err != nil {
			return s, err
		}
		s.Schedules++
	}
	oldest, err := j.queue.Oldest()
	if err != nil {
		return s, err
	}
	if !oldest.IsZero() {
		s.Oldest = max(j.opts.Now().Sub(oldest), 0)
	}
	e, err := j.opts.Store.Get(key(keyHeld))
	s.Held = e.Revision != 0
	return s, err
}
