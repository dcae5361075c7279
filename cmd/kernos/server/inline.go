package server

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"kernos/capability/crypto"
	"kernos/cmd/kernos/settings"
	"kernos/daemon"
	"kernos/internal/exit"
	"kernos/kernel"
	"kernos/transport"
	"kernos/transport/stdio"
)

// Inline answers standard input in this process.
func Inline(ctx context.Context, o *daemon.Options, opts *transport.Options) (err error) {
	o.Level = new(slog.LevelVar)
	o.Level.Set(slog.LevelWarn)
	o.Log = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: o.Level})) // details that callers must not see
	if err := crypto.Harden(); err != nil {
		o.Log.Warn("a core dump of this process could hold secrets", "error", err)
	}
	o.StoreOpened = func() { SetGarbage(inlineGarbage) }
	o.NoJobs = true // jobs would end with this process
	if err := guardPath(); err != nil {
		return err
	}
	d, err := daemon.Open(o)
	if err != nil {
		return settings.Explain(err)
	}
	maintaining, stopMaintaining := context.WithCancel(ctx)
	var background sync.WaitGroup
	background.Go(func() { _ = d.Serve(maintaining) })
	defer func() {
		stopMaintaining()
		background.Wait()
		// An exit status without a cause only means that an error was among the answers.
		status, bare := errors.AsType[*exit.Error](err)
		bare = bare && status.Cause == nil
		if closeErr := d.Close(); closeErr != nil && (err == nil || bare) {
			err = exit.Wrap(closeErr)
		}
	}()

	// Writing to a reader that is gone returns an error.
	signal.Ignore(syscall.SIGPIPE)
	return exit.OnSignal(ctx, func(ctx context.Context) error {
		result, err := serveStandard(ctx, d.Kernel(), opts)
		if err == nil && ctx.Err() == nil && result.Errors > 0 {
			return &exit.Error{Status: exit.Failure}
		}
		return exit.Wrap(cmp.Or(ctx.Err(), err))
	})
}

// grace is how long an interrupted pipe may take to finish running calls and to be read.
const grace = 5 * time.Second

// serveStandard serves standard input and output. It returns at the latest when ctx has been
// done for the grace.
func serveStandard(ctx context.Context, k *kernel.Kernel, opts *transport.Options) (transport.Result, error) {
	type outcome struct {
		result transport.Result
		err    error
	}
	done := make(chan outcome, 1)
	go func() {
		result, err := stdio.Serve(ctx, k, os.Stdin, os.Stdout, opts)
		done <- outcome{result, err}
	}()
	var late <-chan time.Time
	for stop := ctx.Done(); ; stop = nil {
		select {
		case o := <-done:
			return o.result, o.err
		case <-stop:
			late = time.After(grace)
		case <-late:
			return transport.Result{}, ctx.Err()
		}
	}
}
