// Package daemon is all of Kernos as one value: it opens a home, builds the modules, serves
// the kernel over any of its wires, removes what has expired, and drains. The command kernos
// serve is a thin layer over it, and a Go program embeds it:
//
//	d, err := daemon.Open(&daemon.Options{
//		Home:    "/var/lib/agent",
//		Modules: []kernel.Module{mine},
//		Socket:  &daemon.Socket{},
//		Web:     &daemon.Web{Address: "127.0.0.1:7420"},
//	})
//	if err != nil {
//		return err
//	}
//	defer d.Close()
//	return d.Serve(ctx)
//
// A program that only calls the kernel itself leaves out Socket and Web, and uses [Daemon.Call].
//
// # Goroutines
//
//   - A server, one per address or socket: [Daemon.Serve] starts it, and it ends when the daemon stops.
//   - Maintenance, the rates, the files of os://syscalls, one each: Serve starts them, and they end before it returns.
//     The expiry of memory is one more, which maintenance starts.
//   - Jobs, turns of sessions, and embedding the items of collections, one each, which run what package work has: Serve
//     starts them, and they end before it returns.
//   - Looking at a folder of agents or skills, one per folder: the first MCP client that wants to hear of changes
//     starts it, and it ends when the last one has left.
//   - Asking the kernel for a sign of life, one: [Daemon.Alive] starts it, and it ends when the kernel answers.
//   - The node of a cluster, and accepting at its socket, its TCP address and its door, one each: [Member.Serve] starts them, and they
//     end before it returns. So do a connection that is passed on, one per connection; comparing the default token with the other nodes', one; and a move of the kernel that its caller doesn't wait
//     for.
//   - Serving a kernel in this process, one: [NewLoopback] starts it, and it ends with [Loopback.Close].
package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"kernos/capability/job"
	"kernos/capability/mcphost"
	"kernos/capability/notify"
	"kernos/capability/script"
	"kernos/capability/script/engine"
	"kernos/capability/session"
	"kernos/capability/token"
	"kernos/capability/vector"
	"kernos/console"
	"kernos/journal"
	"kernos/kernel"
	"kernos/message"
	"kernos/store"
	"kernos/transport"
	"kernos/transport/mcp"
	"kernos/transport/unix"
)

// A Daemon is a kernel with its state and its servers. It is safe for concurrent use.
type Daemon struct {
	opts     Options
	home     Home
	started  time.Time
	state    *state
	tokens   *token.Directory
	jobs     *job.Jobs
	sessions *session.Sessions
	vectors  *vector.Vectors
	notes    *notify.Notifications
	scripts  *script.Scripts
	engine   *engine.Engine // runs scripts
	mcp      *mcphost.Host
	files    scriptFiles
	clients  *mcp.Server // serves clients of the Model Context Protocol; nil without Web
	tasks    mcp.Tasks   // tasks that clients of the Model Context Protocol follow
	folders  folders     // folders whose agents and skills such clients follow
	kernel   *kernel.Kernel
	changed  <-chan struct{} // closed when the registry has changed since it was built
	lock     *unix.Listener  // the lock of the socket, which keeps a second daemon from the home; nil without a socket
	socket   *unix.Server    // likewise
	servers  []server
	console  *console.Console // nil if no web address is served
	rates    rates
	size     diskSize

	ending  context.Context // done when Shutdown has been called
	end     context.CancelCauseFunc
	serving chan struct{} // closed when Serve has begun
	begun   sync.Once     // closes serving

	closing   sync.Once
	closedErr error // the error of the first Close
}

// A server serves the kernel at some addresses.
type server struct {
	urls  []string
	wires []wire

	// serve serves until ctx is done, and then drains: it accepts nothing new and finishes
	// what runs.
	serve func(ctx context.Context) error

	// close frees the addresses, whether or not the server has served.
	close func() error
}

// A wire is a kind of connection that a server serves.
type wire struct {
	name, over string // labels in the metrics; "" if the server has metrics of its own
	stats      func() transport.Stats
}

// ErrShutdown is the reason for an end that a client has asked for.
var ErrShutdown = errors.New("asked by a client")

// Home returns where the daemon keeps its state.
func (d *Daemon) Home() Home { return d.home }

// Kernel returns the kernel. Syscalls can be added to its registry at any time.
func (d *Daemon) Kernel() *kernel.Kernel { return d.kernel }

// Jobs returns the work in the background.
func (d *Daemon) Jobs() *job.Jobs { return d.jobs }

// Store returns the store that all state is in.
func (d *Daemon) Store() store.Store { return d.state.store }

// StoreInUse reports whether another process had the store open when the daemon last tried to open it.
func (d *Daemon) StoreInUse() bool { return d.state.inUse.Load() }

// Journal returns the message log.
func (d *Daemon) Journal() *journal.Journal { return d.state.journal }

// URLs returns the addresses that are served.
func (d *Daemon) URLs() (urls []string) {
	for _, s := range d.servers {
		urls = append(urls, s.urls...)
	}
	return urls
}

// Call calls the kernel in this process. What the request lacks of an id and a time is filled
// in. Events that come for it are given to event, which may be nil; the outcome is a reply or
// an error message. The error is always nil: Call has the shape of the clients of all wires.
func (d *Daemon) Call(ctx context.Context, request message.Message, event func(message.Message)) (outcome message.Message, _ error) {
	d.kernel.Stamp(&request)
	d.kernel.Handle(ctx, request, func(m message.Message) {
		if m.Kind.Answers() {
			outcome = m
		} else if event != nil {
			event(m.Clone())
		}
	})
	return outcome, nil
}

// Alive returns nil if the kernel answers before ctx is done, and otherwise why it doesn't. It isn't recorded.
func (d *Daemon) Alive(ctx context.Context) error {
	outcome := make(chan message.Message, 1)
	go func() {
		ping := message.Message{Kind: message.KindQuery, Type: message.Ping, Data: []byte(`{"payload":null}`)}
		ping.Metadata.Repeated = true
		answer, _ := d.Call(ctx, ping, nil) // its error is always nil
		outcome <- answer
	}()
	select {
	case answer := <-outcome:
		if answer.Kind == message.KindError {
			return answer.Failure()
		}
		return nil
	case <-ctx.Done():
		return fmt.Errorf("the kernel doesn't answer: %w", context.Cause(ctx))
	}
}

// ask calls a syscall for the principal of the context, and reads its reply.
func (d *Daemon) ask(ctx context.Context, t message.Type, kind message.Kind, in, out any) error {
	data, err := json.Marshal(in)
	if err != nil {
		return err
	}
	outcome, err := d.Call(ctx, message.Message{Kind: kind, Type: t, Data: data}, nil)
	if err != nil {
		return err
	}
	if outcome.Kind == message.KindError {
		return outcome.Failure()
	}
	if out == nil {
		return nil
	}
	return json.Unmarshal(outcome.Data, out)
}

// Shutdown makes Serve return, once what runs has finished. It does not wait.
func (d *Daemon) Shutdown() { d.end(ErrShutdown) }

// ShutdownRequested is closed when Shutdown has been called, by the program or for a client.
func (d *Daemon) ShutdownRequested() <-chan struct{} { return d.ending.Done() }

// Serving is closed when Serve has begun: from then on jobs and sessions can be started.
func (d *Daemon) Serving() <-chan struct{} { return d.serving }

// Serve runs the servers and removes what has expired, until ctx is done or Shutdown is
// called, and finishes what runs. It is called once.
func (d *Daemon) Serve(ctx context.Context) error {
	log := d.opts.Log
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	defer context.AfterFunc(d.ending, func() { stop(context.Cause(d.ending)) })()
	background, stopBackground := context.WithCancel(context.WithoutCancel(ctx))
	var running sync.WaitGroup
	running.Go(func() { d.state.maintain(background, d.kernel, d.jobs) })
	if !d.opts.NoJobs {
		d.sessions.Begin(d.kernel) // sessions and jobs begin before a caller can come, and sessions before jobs, which may use them
		d.jobs.Begin(d.kernel)
		running.Go(func() { d.jobs.Run(ctx, d.kernel) })
		running.Go(func() { d.sessions.Run(ctx, d.kernel) })
		running.Go(func() { d.vectors.Run(ctx) })
	}
	d.begun.Do(func() { close(d.serving) })
	if !d.opts.Unrecorded {
		running.Go(func() { d.files.watch(background) })
	}
	running.Go(func() { d.rates.run(background, func() uint64 { return d.kernel.Stats().Messages }) })
	if len(d.servers) > 0 {
		log.Info("serving", "version", d.opts.Version, "pid", os.Getpid(), "urls", d.URLs(), "home", d.home.Dir,
			"origin", d.home.Origin, "auth", d.opts.signed(), "hash", d.kernel.Registry().All().Hash())
		defer context.AfterFunc(ctx, func() { log.Info("stopping", "reason", context.Cause(ctx).Error()) })()
	}
	err := d.runServers(ctx, stop)
	stopBackground()
	running.Wait()
	return err
}

// runServers runs all servers until ctx is done or one of them fails, which stops the others.
func (d *Daemon) runServers(ctx context.Context, stop context.CancelCauseFunc) (err error) {
	if len(d.servers) == 0 {
		<-ctx.Done()
		return nil
	}
	ended := make(chan error)
	for _, s := range d.servers {
		go func() { ended <- s.serve(ctx) }()
	}
	for range d.servers {
		serverErr := <-ended
		stop(serverErr)
		err = errors.Join(err, serverErr)
	}
	return err
}

// Close makes everything durable and frees the home. Serve must have returned. A second Close does nothing more, and
// returns what the first did.
func (d *Daemon) Close() error {
	d.closing.Do(func() {
		if err := d.keepNames(); err != nil {
			d.opts.Log.Warn("the names of the syscalls can't be remembered, so a wrong word of a command line starts a daemon", "error", err)
		}
		d.closedErr = d.close()
		switch {
		case len(d.servers) == 0:
		case d.closedErr != nil:
			d.opts.Log.Error("stopped", "error", d.closedErr)
		default:
			d.opts.Log.Info("stopped")
		}
	})
	return d.closedErr
}

func (d *Daemon) close() (err error) {
	for _, s := range d.servers {
		err = errors.Join(err, s.close())
	}
	if d.tokens != nil {
		d.tokens.Close()
	}
	if d.mcp != nil {
		d.mcp.Close()
	}
	if d.engine != nil {
		err = errors.Join(err, d.engine.Close())
	}
	if d.state != nil {
		err = errors.Join(err, d.state.close())
	}
	if d.lock != nil { // last: the next daemon waits for this lock and must find the store closed
		err = errors.Join(err, d.lock.Close())
	}
	d.end(nil)
	return err
}
