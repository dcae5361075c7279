package server

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"os"
	"sync"
	"time"

	"kernos/client"
	"kernos/daemon"
	"kernos/internal/exit"
	"kernos/kernel"
	"kernos/message"
	"kernos/store"
)

// Options describe which kernel a command asks.
type Options struct {
	Context string // the name of a context; "" is the current one

	// Start starts the daemon of this user if it isn't running. It is for commands that may take
	// long, such as one whose output a person pages through: they must not keep the store open. Once the daemon has
	// answered, a lost connection is only made again: a person may have stopped the daemon.
	Start bool

	// InProcess opens a kernel in this process if the daemon of this user isn't running, for
	// short commands. Without it and Start, a daemon must be running.
	InProcess func() (*daemon.Daemon, error)

	// ReadOnly is for commands that only read what is served. If the daemon of this user doesn't answer, nothing is
	// started or opened: a kernel in this process that has only the definitions of kernos itself lists and describes
	// them. [Kernel.Lacks] reports that.
	ReadOnly bool

	// References leaves a reply that is a reference to its data as it is: the command reads the
	// data as a stream.
	References bool

	// Progress is given what a call made with [Kernel.Call] reports of its progress; it may be nil.
	Progress func(*client.Item)

	// Node asks the node of a cluster that serves this home, in place of the kernel, which another node may have: what only it
	// knows, also while no node owns the kernel. Elsewhere it has no meaning.
	Node bool

	// Alone opens the kernel in this process also while the daemon of this user is running, for a
	// command that has to work when the daemon hangs.
	Alone bool
}

// A Kernel answers the requests of a command: the daemon of this user, the server of a context,
// or a kernel in this process. One that is gone is left for the next one. A Kernel is safe for
// concurrent use.
type Kernel struct {
	server *Server
	opts   Options

	mu     sync.Mutex
	conn   *client.Client // nil if the last one is gone, or if the daemon has no place left for one
	lost   error          // why the last one was left
	full   error          // of a daemon that has no place left
	away   error          // why the definitions answer in place of the daemon; nil unless they do
	local  *daemon.Daemon // nil unless a kernel of the home is in this process
	done   func() error   // closes what is in this process; nil if nothing is
	closed bool

	answered bool // a request was answered
}

// Open finds the kernel that a command asks. The caller closes it.
func Open(ctx context.Context, o Options) (*Kernel, error) {
	server, err := FindServer(o.Context, "")
	if err != nil {
		return nil, err
	}
	return server.Open(ctx, o)
}

// Open opens the kernel of the server. The caller closes it.
func (s *Server) Open(ctx context.Context, o Options) (*Kernel, error) {
	k := &Kernel{server: s, opts: o}
	return k, k.open(ctx)
}

func (k *Kernel) open(ctx context.Context) (err error) {
	s := k.server
	if s.Daemon == nil {
		k.conn, err = s.dial(ctx)
		return s.Explain(err)
	}
	if k.asksNode() {
		if s.Daemon.Asleep() {
			return unreachable(ErrNotRunning)
		}
		return nil
	}
	if k.opts.Alone && !s.Daemon.IsMember() {
		return k.openInProcess(ctx)
	}
	if k.opts.ReadOnly {
		return k.openReadOnly(ctx)
	}
	dial := func() (err error) {
		k.conn, err = s.dial(ctx)
		return err
	}
	if k.answered && k.opts.Start {
		err = Retry(ctx, reconnectTime, func(context.Context) (again bool, err error) {
			err = s.reach(ctx, false, dial)
			return err == nil && k.conn == nil, err
		})
	} else {
		// A kernel in this process wouldn't have the settings of a service, and can't be a node of a cluster.
		start := k.opts.Start || k.opts.InProcess != nil && (s.Daemon.IsMember() || s.Daemon.Service().Installed())
		err = s.reach(ctx, start, dial)
	}
	switch {
	case k.conn != nil:
		return nil
	case isFull(err):
		k.full = s.Explain(err)
		return nil
	case err != nil && ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		return s.Explain(err)
	case k.opts.InProcess == nil:
		if err := s.Daemon.Unseen(); err != nil {
			return err
		}
		return unreachable(ErrNotRunning)
	}
	return k.openInProcess(ctx)
}

func (k *Kernel) openInProcess(ctx context.Context) error {
	err := Retry(ctx, storeWait, func(context.Context) (again bool, err error) {
		k.local, err = k.opts.InProcess()
		return errors.Is(err, store.ErrInUse), err
	})
	if err != nil {
		return err
	}
	local, loop := k.local, k.local.Loopback()
	k.done = func() error { return errors.Join(loop.Close(), local.Close()) }
	k.conn, err = dialInProcess(ctx, loop)
	return err
}

// asksNode reports whether requests go to the node of a cluster, as lines.
func (k *Kernel) asksNode() bool {
	return k.opts.Node && k.server.Daemon != nil && k.server.Daemon.IsMember()
}

// openReadOnly connects to the daemon of this user, or to a kernel of the definitions if the daemon doesn't answer.
func (k *Kernel) openReadOnly(ctx context.Context) (err error) {
	if k.server.Daemon.Asleep() {
		k.away = unreachable(ErrNotRunning)
		return k.openDefinitions(ctx)
	}
	k.conn, err = k.server.dial(ctx)
	if !isAway(err) && !isFull(err) {
		return k.server.Explain(err)
	}
	k.away = err
	return k.openDefinitions(ctx)
}

func (k *Kernel) openDefinitions(ctx context.Context) error {
	definitions, err := daemon.Definitions()
	if err != nil {
		return err
	}
	loop := daemon.NewLoopback(kernel.New(definitions, nil), nil)
	k.done = loop.Close
	k.conn, err = dialInProcess(context.WithoutCancel(ctx), loop)
	return err
}

// Defined describes a method of kernos itself by its definition, for a server that doesn't list it to its caller.
func Defined(ctx context.Context, module, name string) (*client.Method, error) {
	k := new(Kernel)
	if err := k.openDefinitions(ctx); err != nil {
		return nil, err
	}
	catalog, err := client.Discover(ctx, k.conn, new(client.Cache))
	if err != nil {
		return nil, errors.Join(err, k.Close())
	}
	m, err := catalog.Method(ctx, module, name)
	return m, errors.Join(err, k.Close())
}

// dialInProcess connects to a kernel in this process.
func dialInProcess(ctx context.Context, loop *daemon.Loopback) (*client.Client, error) {
	return client.Dial(ctx, client.Target{URL: "ws://kernel.in.this.process/", Dial: loop.Dial})
}

// Server returns the server that the kernel is reached at.
func (k *Kernel) Server() *Server { return k.server }

// DefinitionsOnly reports whether the kernel has only the definitions of kernos itself, in place of the daemon: it answers
// what lists and describes syscalls.
func (k *Kernel) DefinitionsOnly() bool { return k.whyAway() != nil }

func (k *Kernel) whyAway() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.away
}

// Lacks returns a sentence on what such a kernel doesn't list; "" if nothing is missing.
func (k *Kernel) Lacks() string {
	away := k.whyAway()
	if away == nil {
		return ""
	}
	if _, err := os.Stat(k.server.Daemon.Store()); err != nil {
		return "" // nothing was ever registered
	}
	why := "no daemon is running"
	if isFull(away) {
		why = away.Error()
	}
	return why + "; a daemon lists syscalls that were registered, too (kernos serve starts one)"
}

// Close lets go of the kernel. Calls that are under way end with an error.
func (k *Kernel) Close() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.closed = true
	return k.close()
}

func (k *Kernel) close() (err error) {
	if k.conn != nil {
		_ = k.conn.Close()
	}
	if k.done != nil {
		err = k.done()
	}
	k.conn, k.full, k.away, k.local, k.done = nil, nil, nil, nil, nil
	return err
}

// Client returns the connection to the kernel, for what may fail without a second attempt. It is nil if the daemon has
// no place left for one.
func (k *Kernel) Client() *client.Client {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.conn
}

// way returns the connection to the kernel, and the kernel if it is in this process. If the last one is gone, it is that
// to the next one. If the daemon has no place left, the error is about that.
func (k *Kernel) way(ctx context.Context) (*client.Client, *daemon.Daemon, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closed {
		return nil, nil, exit.Wrap(client.ErrClosed)
	}
	if k.conn != nil {
		return k.conn, k.local, nil
	}
	err := k.open(ctx)
	return k.conn, k.local, cmp.Or(err, k.full)
}

// drop closes a connection that is gone, unless another call has done so.
func (k *Kernel) drop(gone *client.Client, why error) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.conn != gone {
		return nil
	}
	k.lost = why
	return k.close()
}

// whyLost returns why the last connection was left, or nil if the kernel was closed: calls on it that are under way end when
// one of them drops it.
func (k *Kernel) whyLost() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closed {
		return nil
	}
	return k.lost
}

// isGone reports whether an error means that a kernel can no longer be asked.
func isGone(err error) bool {
	_, unreachable := errors.AsType[*client.Unreachable](err)
	_, refused := errors.AsType[*client.Refused](err)
	return unreachable || refused || errors.Is(err, message.ErrServerStopping) || errors.Is(err, store.ErrInUse)
}

// attempt makes a request to the first kernel that takes it.
func (k *Kernel) attempt(ctx context.Context, request func(*client.Client, *daemon.Daemon) (taken bool, err error)) error {
	return Retry(ctx, EndTime(), func(context.Context) (again bool, err error) {
		conn, local, err := k.way(ctx)
		if err != nil {
			return false, err
		}
		taken, err := request(conn, local)
		if errors.Is(err, client.ErrClosed) {
			err = cmp.Or(k.whyLost(), err)
		}
		if !isGone(err) {
			k.mu.Lock()
			k.answered = true
			k.mu.Unlock()
			return false, err
		}
		if failed := k.drop(conn, err); failed != nil {
			return false, errors.Join(err, failed)
		}
		return !taken, err
	})
}

// Discover finds out what the kernel serves; see [client.Discover]. If it has only definitions, what the daemon had when
// it was last called is added.
func (k *Kernel) Discover(ctx context.Context, cache *client.Cache) (catalog *client.Catalog, err error) {
	err = k.attempt(ctx, func(conn *client.Client, _ *daemon.Daemon) (taken bool, err error) {
		if k.DefinitionsOnly() {
			catalog, err = client.Discover(ctx, conn, new(client.Cache))
			if known, missing := cache.Latest(k.server.Target); err == nil && missing == nil {
				catalog.Add(known)
			}
			return false, err
		}
		if catalog, err = client.Discover(ctx, conn, cache); err == nil {
			err = catalog.Stale
		}
		return false, err
	})
	if catalog != nil {
		return catalog, nil
	}
	return nil, err
}

// Stream makes a call, and gives its items to a function. A call that was not begun because the kernel is gone, or because
// another process has the store, is made at the next kernel. An error of the function ends the call, and is returned as
// it is.
func (k *Kernel) Stream(ctx context.Context, r client.Request, f func(*client.Item) error) error {
	return Retry(ctx, storeWait, func(context.Context) (again bool, err error) {
		begun := false
		err = k.attempt(ctx, func(conn *client.Client, local *daemon.Daemon) (taken bool, err error) {
			stream, err := conn.Open(ctx, r)
			if err != nil {
				return false, k.server.Explain(err)
			}
			var own error // of the function
			err = stream.Each(ctx, func(item *client.Item) error {
				// The reason of a kernel in this process isn't in its answer: another process has the store.
				if !begun && item.Type == client.Error && item.Code == 503 && local != nil && local.StoreInUse() {
					own = &message.Error{Code: item.Code, Message: item.Error, Reason: store.ErrInUse}
				} else {
					begun, own = true, f(item)
				}
				return own
			})
			return true, cmp.Or(own, k.server.Explain(err))
		})
		return !begun && errors.Is(err, store.ErrInUse), err
	})
}

// Call sends a request; see [Caller] and Stream.
func (k *Kernel) Call(ctx context.Context, m message.Message, event func(json.RawMessage) error) (reply json.RawMessage, err error) {
	if k.asksNode() {
		reply, err := k.server.Daemon.operate(ctx, m.Kind, m.Type, m.Data)
		if absent(err) {
			return nil, unreachable(ErrNotRunning)
		}
		return reply, err
	}
	if _, _, err := k.way(ctx); isFull(err) && k.server.Daemon != nil {
		return k.server.Daemon.operate(ctx, m.Kind, m.Type, nil)
	} else if err != nil {
		return nil, err
	}
	namespace, name := kernel.Method(m.Type)
	var failure error
	err = k.Stream(ctx, client.Request{
		Method: namespace + "_" + name, Params: []any{m.Data}, Kind: string(m.Kind),
		Metadata: client.Metadata{
			ID: string(m.Metadata.ID), Correlation: m.Metadata.Correlation, Causation: string(m.Metadata.Causation), IdempotencyKey: m.Metadata.IdempotencyKey, Repeated: m.Metadata.Repeated,
		},
	}, func(item *client.Item) (err error) {
		switch item.Type {
		case client.Progress:
			if k.opts.Progress != nil {
				k.opts.Progress(item)
			}
		case client.Error:
			failure = &message.Error{Code: item.Code, Message: item.Error}
		case client.Data:
			failure = nil // whatever was wrong before, the call continued
			data := item.Data
			if !k.opts.References {
				if data, err = k.fetch(ctx, data); err != nil {
					return err
				}
			}
			if item.ContentType == namespace+"."+name {
				reply = data
			} else if event != nil {
				return exit.Wrap(event(data))
			}
		}
		return nil
	})
	return reply, cmp.Or(err, failure)
}

// fetch returns the data of an answer, from its blob if it was too long for an item.
func (k *Kernel) fetch(ctx context.Context, data json.RawMessage) (json.RawMessage, error) {
	if !bytes.HasPrefix(data, []byte(`{"dataRef":`)) {
		return data, nil
	}
	p, ok := client.Whole(data)
	if !ok {
		return data, nil
	}
	whole, err := k.server.Fetch(ctx, p)
	return whole, k.server.Explain(err)
}

// storeWait is how long a command waits for a store that another process has open: most commands
// have it open for some milliseconds only.
const storeWait = 2 * time.Second
