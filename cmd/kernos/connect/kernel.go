package connect

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"kernos/client"
	"kernos/cmd/kernos/exit"
	"kernos/daemon"
	"kernos/kernel"
	"kernos/message"
	"kernos/store"
)

// Options say which kernel a command asks.
type Options struct {
	Context string // the name of a context; "" is the current one

	// Start starts the daemon of this user if it isn't running. It is for commands that may take
	// long, such as one whose output a person pages through: they must not keep the store open.
	Start bool

	// InProcess opens a kernel in this process if the daemon of this user isn't running, for
	// short commands. Without it and Start, a daemon must be running.
	InProcess func() (*daemon.Daemon, error)

	// References leaves a reply that is a reference to its data as it is: the command reads the
	// data as a stream.
	References bool

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
	local  *daemon.Daemon // nil unless the kernel is in this process
	done   func() error   // closes it
	closed bool
}

// Open finds the kernel that a command asks. The caller closes it.
func Open(ctx context.Context, o Options) (*Kernel, error) {
	server, err := FindServer(o.Context, "")
	if err != nil {
		return nil, err
	}
	k := &Kernel{server: server, opts: o}
	return k, k.open(ctx)
}

func (k *Kernel) open(ctx context.Context) (err error) {
	s := k.server
	if s.Daemon == nil {
		k.conn, err = s.dialOnce(ctx)
		return s.Explain(err)
	}
	if k.opts.Alone {
		return k.openInProcess(ctx)
	}
	find := s.Daemon.Connect
	if k.opts.Start {
		find = s.Daemon.ConnectOrStart
	}
	k.conn, err = s.dialDaemon(ctx, find)
	switch {
	case k.conn != nil, isFull(err):
		return nil
	case err != nil && ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		return s.Explain(err)
	case k.opts.InProcess == nil:
		if err := s.Daemon.Unseen(); err != nil {
			return err
		}
		return unreachable(errNotRunning)
	}
	return k.openInProcess(ctx)
}

func (k *Kernel) openInProcess(ctx context.Context) error {
	err := Retry(ctx, storeWait, func(context.Context) (again bool, err error) {
		k.local, err = k.opts.InProcess()
		return errors.Is(err, store.ErrInUse), err
	})
	if err == nil {
		k.conn, k.done, err = dialInProcess(ctx, k.local)
	}
	return err
}

// dialInProcess connects to a kernel in this process. The caller closes the connection, and then both the kernel and
// the way to it with done, also after an error.
func dialInProcess(ctx context.Context, d *daemon.Daemon) (conn *client.Client, done func() error, err error) {
	loop := d.Loopback()
	conn, err = client.Dial(ctx, client.Target{URL: "ws://kernel.in.this.process/", Dial: loop.Dial})
	return conn, func() error { return errors.Join(loop.Close(), d.Close()) }, err
}

// Server returns the server that the kernel is reached at.
func (k *Kernel) Server() *Server { return k.server }

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
	if k.local != nil {
		err = k.done()
	}
	k.conn, k.local, k.done = nil, nil, nil
	return err
}

// way returns the connection to the kernel, and the kernel if it is in this process. If the last one is gone, it is that
// to the next one.
func (k *Kernel) way(ctx context.Context) (*client.Client, *daemon.Daemon, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closed {
		return nil, nil, exit.Wrap(client.ErrClosed)
	}
	var err error
	if k.conn == nil {
		err = k.open(ctx)
	}
	return k.conn, k.local, err
}

// leave lets go of a connection, unless another call has.
func (k *Kernel) leave(gone *client.Client) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.conn != gone {
		return nil
	}
	return k.close()
}

// isGone reports whether an error means that a kernel can no longer be asked.
func isGone(err error) bool {
	_, unreachable := errors.AsType[*client.Unreachable](err)
	_, refused := errors.AsType[*client.Refused](err)
	return unreachable || refused || errors.Is(err, message.ErrServerStopping) || errors.Is(err, store.ErrInUse)
}

// Call sends a request; see [request.Caller]. A request that was not begun because the kernel is
// gone, or because another process has the store, is sent to the next kernel.
func (k *Kernel) Call(ctx context.Context, m message.Message, event func(json.RawMessage)) (data json.RawMessage, err error) {
	err = Retry(ctx, storeWait, func(context.Context) (again bool, err error) {
		begun := false
		data, err = k.send(ctx, m, func(data json.RawMessage) {
			begun = true
			if event != nil {
				event(data)
			}
		})
		return !begun && errors.Is(err, store.ErrInUse), err
	})
	return data, err
}

// send sends a request to the first kernel that takes it.
func (k *Kernel) send(ctx context.Context, m message.Message, event func(json.RawMessage)) (data json.RawMessage, err error) {
	err = Retry(ctx, EndTime, func(context.Context) (again bool, err error) {
		conn, local, err := k.way(ctx)
		if err != nil {
			return false, err
		}
		if conn == nil {
			data, err = k.server.Daemon.operate(ctx, m.Kind, m.Type)
			return false, err
		}
		taken := false
		data, taken, err = k.call(ctx, conn, m, event)
		// The reason of a kernel in this process isn't in its answer: another process has the store.
		if e, ok := errors.AsType[*message.Error](err); ok && e.Code == 503 && local != nil && local.StoreInUse() {
			e.Reason = store.ErrInUse
		}
		if !isGone(err) {
			return false, err
		}
		if failed := k.leave(conn); failed != nil {
			return false, errors.Join(err, failed)
		}
		return !taken, err
	})
	return data, err
}

// call sends a request over a connection. Taken is whether the kernel has acknowledged it.
func (k *Kernel) call(ctx context.Context, conn *client.Client, m message.Message, event func(json.RawMessage)) (reply json.RawMessage, taken bool, err error) {
	namespace, name := kernel.Method(m.Type)
	stream, err := conn.Open(ctx, client.Request{
		Method: namespace + "_" + name, Params: []any{m.Data}, Kind: string(m.Kind),
		Metadata: client.Metadata{
			ID: string(m.Metadata.ID), Correlation: m.Metadata.Correlation, Causation: string(m.Metadata.Causation), IdempotencyKey: m.Metadata.IdempotencyKey,
		},
	})
	if err != nil {
		return nil, false, k.server.Explain(err)
	}
	defer func() { _ = stream.Close() }()
	for item, err := range stream.Items(ctx) {
		switch {
		case err != nil:
			return nil, true, k.server.Explain(err)
		case item.Type == client.Error:
			return nil, true, &message.Error{Code: item.Code, Message: item.Error}
		case item.Type == client.Data:
			data := item.Data
			if !k.opts.References {
				if data, err = k.fetch(ctx, data); err != nil {
					return nil, true, err
				}
			}
			if item.ContentType == namespace+"."+name {
				reply = data
			} else {
				event(data)
			}
		}
	}
	return reply, true, nil
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
