package connect

import (
	"context"
	"errors"
	"time"

	"kernos/cmd/kernos/exit"
	"kernos/cmd/kernos/request"
	"kernos/message"
	"kernos/transport/unix"
)

// Options say which kernel a command asks.
type Options struct {
	Context string // the name of a context; "" is the current one

	// InProcess opens a kernel in this process, for a command that doesn't need a daemon where
	// none is running. Nil means that a daemon must be running.
	InProcess func() (call request.Caller, closeKernel func() error, err error)
}

// A Kernel answers the requests of a command: the daemon of this user, the server of a context,
// or a kernel in this process. One that is shutting down is left for the next one.
type Kernel struct {
	server    *Server
	opts      Options
	call      request.Caller
	close     func() error
	inProcess bool
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

func (k *Kernel) open(ctx context.Context) error {
	if k.server.Daemon == nil {
		m, err := newMessenger(k.server)
		if err != nil {
			return err
		}
		k.call, k.close = m.call, m.close
		return nil
	}
	conn, err := k.server.Daemon.Connect(ctx)
	if err != nil {
		return err
	}
	if k.inProcess = conn == nil; conn != nil {
		client := unix.NewClient(conn)
		k.call, k.close = client.Call, client.Close
		return nil
	}
	if k.opts.InProcess == nil {
		if err := k.server.Daemon.Unseen(); err != nil {
			return err
		}
		return &exit.Error{Status: exit.Unreachable, Cause: ErrNotRunning}
	}
	return Retry(ctx, InUse, func(context.Context) (again bool, err error) {
		k.call, k.close, err = k.opts.InProcess()
		return Busy(err), err
	})
}

// Close lets go of the kernel.
func (k *Kernel) Close() error {
	if k.close == nil {
		return nil
	}
	closeKernel := k.close
	k.close = nil
	return closeKernel()
}

// Call sends a request; see [request.Caller]. A request that was not begun because the kernel
// is shutting down, or because another process has the store, is sent to the next kernel.
func (k *Kernel) Call(ctx context.Context, m message.Message, event func(message.Message)) (outcome message.Message, err error) {
	err = Retry(ctx, InUse, func(context.Context) (again bool, err error) {
		begun := false
		outcome, err = k.call(ctx, m, func(m message.Message) {
			begun = true
			if event != nil {
				event(m)
			}
		})
		if begun || !errors.Is(err, unix.ErrStopping) && !(k.inProcess && isBusy(outcome)) {
			return false, err
		}
		return errors.Join(k.Close(), k.open(ctx)) == nil, err
	})
	return outcome, err
}

// InUse is how long a command waits for a store that another process has open: most commands
// have it open for some milliseconds only.
const InUse = 2 * time.Second

// Busy reports whether a store can't be opened at the moment.
func Busy(err error) bool {
	if err == nil {
		return false
	}
	e, _ := message.ErrorOf(err)
	return e.Code == 503
}

// isBusy reports whether an outcome is that of a kernel whose store is in use.
func isBusy(outcome message.Message) bool {
	if outcome.Kind != message.KindError {
		return false
	}
	e, err := message.ParseError(outcome.Data)
	return err == nil && e.Code == 503
}
