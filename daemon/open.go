package daemon

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"kernos/capability/blob"
	"kernos/capability/crypto"
	"kernos/capability/introspect"
	"kernos/capability/job"
	"kernos/capability/memory"
	"kernos/capability/notify"
	"kernos/capability/session"
	"kernos/capability/token"
	"kernos/capability/vector"
	"kernos/internal/outbound"
	"kernos/internal/ranked"
	"kernos/journal"
	"kernos/kernel"
	"kernos/kernel/principal"
	"kernos/message"
	"kernos/store"
	"kernos/store/blobs"
	"kernos/store/pebble"
	"kernos/store/vectors"
)

// jobGrace is how long running jobs may continue when the daemon stops. What can be repeated is begun
// again by the next one.
const jobGrace = 5 * time.Second

// Open opens the home, builds the kernel and takes the addresses of the servers; Serve runs
// them. If it fails, everything is as before. Errors are a *[unix.Running] if another daemon
// serves the home, an *[OptionError], a *[HomeError], or from the operating system. The caller
// closes the daemon.
func Open(o *Options) (_ *Daemon, err error) {
	d := &Daemon{opts: *o, started: time.Now(), serving: make(chan struct{})}
	d.files = scriptFiles{d: d, seen: make(map[string]string), failed: make(map[string]string)}
	d.opts.Log = cmp.Or(d.opts.Log, slog.New(slog.DiscardHandler))
	d.opts.Level = cmp.Or(d.opts.Level, new(slog.LevelVar))
	if d.opts.Now == nil {
		d.opts.Now = time.Now
	}
	if o.Home == "" {
		return nil, errors.New("a daemon needs a home: set Options.Home")
	}
	if err := d.opts.Check(); err != nil {
		return nil, err
	}
	if d.home, err = FindHome(o.Home, o.Origin); err != nil {
		return nil, err
	}
	if o.OpenStore == nil && d.home.IsMember() {
		return nil, ErrMember
	}
	d.ending, d.end = context.WithCancelCause(context.Background())
	defer func() {
		if err != nil {
			err = errors.Join(err, d.close())
		}
	}()
	path := ""
	if o.Socket != nil {
		if d.lock, err = d.lockSocket(); err != nil {
			return nil, err
		}
		path = d.lock.Path()
	}
	if d.state, err = newState(d.home, &d.opts, path); err != nil {
		return nil, err
	}
	d.tokens = token.New(&token.Options{Store: d.state.store, Ended: func(id principal.ID) { d.jobs.Ended(id) }, Now: d.opts.Now})
	d.jobs = job.New(&job.Options{
		Store: d.state.store, Find: d.tokens.Find, Blobs: d.state, Open: d.state.resolve, Known: d.registered, Away: d.absent, Opened: d.state.opened, Slots: d.opts.Limits.Jobs, Grace: jobGrace, Now: d.opts.Now, Log: d.opts.Log,
	})
	d.vectors = vector.New(&vector.Options{Store: d.state.store, Models: d.state.embed, Cache: d.state.vectors, Opened: d.state.opened, Log: d.opts.Log})
	d.notes = notify.New(&notify.Options{Store: d.state.store, Seal: d.state.keys.Seal, Open: d.state.keys.Open, Client: d.state.asking, Now: d.opts.Now})
	d.sessions = session.New(&session.Options{
		Store: d.state.store, Find: d.tokens.Find, Blobs: d.state, Open: d.state.resolve, Opened: d.state.opened, Grace: jobGrace, Now: d.opts.Now, Log: d.opts.Log,
		ContextTokens: func(name string) (int, error) { return d.state.models(&d.opts).ContextTokens(name) },
	})
	if err := d.openKernel(); err != nil {
		return nil, err
	}
	return d, d.openServers()
}

// openKernel builds the kernel, with the journal unless it is turned off.
func (d *Daemon) openKernel() error {
	settings := kernel.Options{
		Timeout: d.opts.Limits.Timeout, Store: d.state.store, Blobs: d.state, ReadBlob: blob.ReadType, IdempotencyTTL: d.state.outcomes, Rules: d.sessions.Rules(), Needs: introspect.Needs, Absent: func(t message.Type, p *principal.Principal) string { return d.absent(t, p.IsOwner()) },
		InFlight: d.opts.Limits.InFlight, InFlightAll: d.opts.Limits.InFlightAll, Log: d.opts.Log,
	}
	if d.opts.Fenced {
		settings.Fence = d.state.store.Barrier
	}
	if !d.opts.Unrecorded {
		var err error
		if settings.Recorder, err = d.state.record(); err != nil {
			return err
		}
		settings.Workflow = d.state.journal.Workflow
	}
	r, err := kernel.NewRegistry()
	if err != nil {
		return err
	}
	if err := d.prepare(r); err != nil {
		return err
	}
	if err := r.Add(append(d.capabilities(r), d.opts.Modules...)...); err != nil {
		return err
	}
	d.kernel = kernel.New(r, &settings)
	d.mcp.Begin(d.kernel)
	d.changed = r.Changed()
	if d.opts.Unrecorded {
		r.OnMiss(d.loadRegistered)
		return nil
	}
	return errors.Join(d.home.forgetNames(), d.scripts.Load(), d.mcp.Load())
}

// loadRegistered loads scripts and the tools of MCP servers where the store isn't opened before it
// is needed: a home without a store has none.
func (d *Daemon) loadRegistered() {
	if _, err := os.Stat(d.home.Store()); err != nil {
		return
	}
	if err := errors.Join(d.scripts.Load(), d.mcp.Load()); err != nil {
		d.opts.Log.Error("registered code and MCP servers can't be read, so they can't be called", "error", err)
	}
}

// openServers opens the servers. A new wire is a line here.
func (d *Daemon) openServers() error {
	if d.lock != nil {
		d.servers = append(d.servers, d.openSocket())
	}
	if d.opts.Web != nil {
		if err := d.openConsole(); err != nil {
			return err
		}
		web, err := openWeb(d)
		if err != nil {
			return err
		}
		d.servers = append(d.servers, web)
	}
	return nil
}

// reachesFile decides about a pointer to a file of this machine.
func reachesFile(ctx context.Context, path string) error {
	return kernel.Reaching(ctx, kernel.ToFile, path)
}

// newState prepares the state of a home.
func newState(home Home, o *Options, socket string) (*state, error) {
	s := &state{home: home, log: o.Log, outcomes: o.Retention.outcomes(), opened: make(chan struct{})}
	s.private = []string{home.Dir}
	if socket != "" {
		if own, err := home.Socket(); err == nil && own == socket { // another socket has no directory of its own
			s.private = append(s.private, filepath.Dir(own))
		}
	}
	policy, err := o.policy()
	if err != nil {
		return nil, err
	}
	if s.blobs, err = blobs.New(home.blobs()); err != nil {
		return nil, err
	}
	if o.Depot != nil {
		s.blobs.SetDepot(o.Depot)
	}
	open := o.OpenStore
	if open == nil {
		settings := o.Pebble
		settings.Log, settings.Address, settings.Watchers = o.Log, socket, new(store.Watchers)
		open = func(dir string) (store.Store, error) { return pebble.OpenOrRead(dir, &settings) }
	}
	opened := sync.OnceFunc(func() {
		close(s.opened)
		if o.StoreOpened != nil {
			o.StoreOpened()
		}
	})
	s.store = store.Lazy(func() (store.Store, error) {
		engine, err := open(home.Store())
		s.inUse.Store(errors.Is(err, store.ErrInUse))
		if err == nil {
			opened()
		}
		return engine, err
	})
	s.client, s.own = newOutgoing(policy)
	policy.Private, policy.Loopback = true, true // the owner has named the host in the settings of the model
	s.asking = outbound.NewClient(policy, nil)
	s.keys = crypto.New(crypto.Options{
		Agent: crypto.Socket(o.Keys.Agent), Key: o.Keys.Seal, KeyFile: home.Key(), RequireAgent: o.Keys.RequireAgent, OpenUnbound: o.Keys.OpenUnbound, Log: o.Log,
	})
	s.embed, s.vectors = s.embeddings(o), vectors.NewCache(vectorBytes, vectorsKept)
	// The owner may point to any file of this machine that isn't the kernel's, and tokens to
	// blobs that they reach.
	own := &blobs.Resolver{Dir: s.blobs, Private: s.private, Client: s.client, Limit: memory.MaxValue, Outside: reachesFile}
	confined := *own
	confined.Confined, confined.Reaches = true, s.callerReaches
	s.resolve = func(ctx context.Context, p message.BlobPointer) ([]byte, error) {
		ctx = kernel.Besides(ctx)
		if kernel.PrincipalOf(ctx).IsOwner() {
			return own.Resolve(ctx, p)
		}
		return confined.Resolve(ctx, p)
	}
	s.meaning = ranked.NewMeaning(s.embed[0])
	s.memory = memory.New(s.store, s.blobs, &memory.Options{Meaning: s.meaning, Resolve: s.resolve, Reaches: s.callerReaches, Proc: s.proc, ProcKeys: s.procKeys, Now: o.Now, Log: o.Log})
	s.journal = journal.New(s.store, &journal.Options{
		Retention: journal.Retention{MaxAge: o.Retention.MaxAge, MaxBytes: o.Retention.journalBytes()}, Blobs: s, Log: o.Log,
		Models: s.embed, Vectors: s.vectors,
	})
	return s, nil
}
