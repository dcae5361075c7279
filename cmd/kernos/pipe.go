package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"kernos/kernel"
	"kernos/transport"
	"kernos/transport/stdio"
)

func pipeCommand() *cobra.Command {
	var inline, lenient, record bool
	var timeout time.Duration
	var keep retention
	c := &cobra.Command{
		Use:   "pipe [--inline]",
		Short: "Answer the messages on standard input, one a line",
		Long: `Read messages from standard input, one JSON object a line, and write what answers
them to standard output: for each command and each query one reply or one error,
which names the message it answers in metadata.causation. A line that is no message
is answered too; nothing stops the stream.

Slow syscalls are answered when they are done; all others in the order in which they
came. The command ends when its input has ended and everything is answered. Its
status is 1 if an error message was among the answers.`,
		Example: `  kernos pipe --inline < requests.ndjson > answers.ndjson
  echo '{"kind":"query","type":"Syscall.List","data":{}}' | kernos pipe --inline --lenient | jq .data`,
		Args: noArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			if timeout <= 0 {
				return fmt.Errorf("--timeout must be more than 0, got %v", timeout)
			}
			if err := keep.complete(c); err != nil {
				return err
			}
			return pipe(c.Context(), timeout, record, keep, &transport.Options{Lenient: lenient})
		},
	}
	c.Flags().BoolVar(&inline, "inline", false, "answer in this process (there is no other way yet, so it is what happens anyhow)")
	c.Flags().BoolVar(&lenient, "lenient", false, "give messages without metadata, id or timestamp one")
	c.Flags().BoolVar(&record, "journal", false, "record every message, for kernos log, graph, search and replay")
	keep.add(c)
	c.Flags().DurationVar(&timeout, "timeout", kernel.DefaultTimeout, "how long one call may take")
	return c
}

func pipe(ctx context.Context, timeout time.Duration, record bool, keep retention, opts *transport.Options) (err error) {
	log := operatorLog()
	s, err := findState(log, keep)
	if err != nil {
		return err
	}
	defer func() {
		// It says more than that an error was among the answers.
		if closeErr := s.close(); closeErr != nil && (err == nil || err.Error() == "") {
			err = failed(closeErr)
		}
	}()
	r, err := registry(s)
	if err != nil {
		return err
	}
	settings := kernel.Options{Timeout: timeout, Store: s.store, Blobs: s, Log: log}
	if record {
		if settings.Recorder, err = s.record(); err != nil {
			return failed(err)
		}
	}
	k := kernel.New(r, &settings)
	maintaining, stopMaintaining := context.WithCancel(ctx)
	var maintenance sync.WaitGroup
	maintenance.Go(func() { s.maintain(maintaining, k) })
	defer maintenance.Wait()
	defer stopMaintaining()

	// A reader that goes away is told by the error of the next write.
	signal.Ignore(syscall.SIGPIPE)
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	result, err := serve(ctx, k, opts)
	switch {
	case ctx.Err() != nil:
		return &exitStatus{status: exitInterrupted}
	case err != nil:
		return &exitStatus{status: exitError, cause: err}
	case result.Errors > 0:
		return &exitStatus{status: exitError}
	}
	return nil
}

// grace is how long an interrupted pipe may take to finish what has begun, and to be
// read.
const grace = 5 * time.Second

// serve serves standard input and output, and gives up some time after ctx has.
func serve(ctx context.Context, k *kernel.Kernel, opts *transport.Options) (transport.Result, error) {
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

// homeDirectory is where kernos keeps its state.
func homeDirectory() (string, error) {
	if home := os.Getenv("KERNOS_HOME"); home != "" {
		return home, nil
	}
	if data := os.Getenv("XDG_DATA_HOME"); filepath.IsAbs(data) {
		return filepath.Join(data, "kernos"), nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("no home directory for kernos: set KERNOS_HOME: %w", err)
	}
	return filepath.Join(home, ".local", "share", "kernos"), nil
}
