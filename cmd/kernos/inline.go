package main

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"kernos/capability/crypto"
	"kernos/capability/lifecycle"
	"kernos/cmd/kernos/exit"
	"kernos/kernel"
	"kernos/transport"
	"kernos/transport/stdio"
)

// pipeInline answers standard input in this process.
func pipeInline(ctx context.Context, timeout time.Duration, record bool, keep retention, out *outsideSettings, opts *transport.Options) (err error) {
	level := new(slog.LevelVar)
	log := operatorLog(level)
	if err := crypto.Harden(); err != nil {
		log.Warn("a core dump of this process could hold secrets", "error", err)
	}
	about := report{started: time.Now()}
	if about.address, err = findHome(); err != nil {
		return err
	}
	s, err := findState(log, keep, out)
	if err != nil {
		return err
	}
	about.state = s
	defer func() {
		// An exit status without a cause only says that an error was among the answers.
		status, bare := errors.AsType[*exit.Error](err)
		bare = bare && status.Cause == nil
		if closeErr := s.close(); closeErr != nil && (err == nil || bare) {
			err = exit.Wrap(closeErr)
		}
	}()
	r, err := registry(s, lifecycle.Options{Status: about.status}, about.view(level, nil))
	if err != nil {
		return err
	}
	settings := kernel.Options{Timeout: timeout, Store: s.store, Blobs: s, IdempotencyTTL: s.outcomes, Log: log}
	if record {
		if settings.Recorder, err = s.record(); err != nil {
			return exit.Wrap(err)
		}
	}
	k := kernel.New(r, &settings)
	about.kernel = k
	behind, stopBehind := context.WithCancel(ctx)
	var background sync.WaitGroup
	background.Go(func() { s.maintain(behind, k) })
	background.Go(func() { about.rates.run(behind, about.messages) })
	defer background.Wait()
	defer stopBehind()

	// A reader that goes away is told by the error of the next write.
	signal.Ignore(syscall.SIGPIPE)
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	result, err := serveStandard(ctx, k, opts)
	switch {
	case ctx.Err() != nil:
		return &exit.Error{Status: exit.Interrupted}
	case err != nil:
		return &exit.Error{Status: exit.Failure, Cause: err}
	case result.Errors > 0:
		return &exit.Error{Status: exit.Failure}
	}
	return nil
}

// grace is how long an interrupted pipe may take to finish what has begun, and to be
// read.
const grace = 5 * time.Second

// serveStandard serves standard input and output, and gives up some time after ctx has.
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
