package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"kernos/internal/testkit"
	"kernos/kernel"
	"kernos/message"
	"kernos/transport/unix"
)

// A daemon that is told to end finishes what runs, and what it answers arrives.
func TestADaemonFinishesWhatRuns(t *testing.T) {
	runtime, err := os.MkdirTemp("", "kernos")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(runtime) })
	t.Setenv("KERNOS_HOME", t.TempDir())
	t.Setenv("KERNOS_ORIGIN", "")
	t.Setenv("XDG_RUNTIME_DIR", runtime)
	settings := &serveSettings{
		maxConnections: 10, inFlight: 10, inFlightAll: 10, lineTime: age(time.Minute),
		timeout: age(time.Minute), grace: age(time.Minute), keep: defaultRetention,
	}
	d, err := newDaemon(settings, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	// A second one changes nothing.
	if _, err := newDaemon(settings, io.Discard); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("process %d", os.Getpid())) {
		t.Errorf("a second daemon: %v", err)
	}
	begun, finish := make(chan struct{}), make(chan struct{})
	type nothing struct{}
	slow := kernel.Command(kernel.Definition{Type: "Test.Work", Summary: "Work.", Runs: kernel.Slow},
		func(context.Context, nothing) (nothing, error) {
			close(begun)
			<-finish
			return nothing{}, nil
		})
	if err := d.kernel.Registry().Add(kernel.Module{Name: "test", Version: "1.0.0", Summary: "For tests.", Syscalls: []kernel.Syscall{slow}}); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancelCause(t.Context())
	stopped := make(chan struct{})
	d.shutdown = func() { stop(errAsked); close(stopped) }
	ended := make(chan error, 1)
	go func() { ended <- d.run(ctx) }()

	worker, err := openDaemon(t.Context())
	if err != nil || worker == nil {
		t.Fatal(err)
	}
	defer func() { _ = worker.Close() }()
	type result struct {
		outcome message.Message
		err     error
	}
	results := make(chan result, 1)
	go func() {
		outcome, err := worker.Call(t.Context(), message.Message{Kind: message.KindCommand, Type: "Test.Work", Data: []byte("{}")}, nil)
		results <- result{outcome, err}
	}()
	<-begun
	other, err := openDaemon(t.Context())
	if err != nil || other == nil {
		t.Fatal(err)
	}
	defer func() { _ = other.Close() }()
	outcome, err := other.Call(t.Context(), message.Message{Kind: message.KindCommand, Type: "Syscall.Shutdown", Data: []byte("{}")}, nil)
	if err != nil || string(outcome.Data) != `{"success":true}` {
		t.Errorf("%v: %s", err, outcome.Data)
	}
	<-stopped
	testkit.Until(t, "nobody is let in", func() bool {
		_, err := new(unix.Dialer).Dial(t.Context(), d.address.socket)
		return absent(err)
	})
	if _, running := unix.Inspect(d.address.socket); !running {
		t.Error("the daemon has let go of its lock before it has ended")
	}
	select {
	case err := <-ended:
		t.Fatalf("it has not waited: %v", err)
	case r := <-results:
		t.Fatalf("it has not waited: %s, %v", r.outcome.Data, r.err)
	default:
	}
	close(finish)
	if r := <-results; r.err != nil || r.outcome.Kind != message.KindReply {
		t.Errorf("%s, %v", r.outcome.Data, r.err)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if _, running := unix.Inspect(d.address.socket); running {
		t.Error("the lock is held")
	}
	// The outcome is in the journal.
	var out bytes.Buffer
	c := logCommand(openKernel)
	c.SetArgs([]string{"--type", "Test.Work", "--kind", "reply", "--json"})
	c.SetOut(&out)
	if err := c.ExecuteContext(t.Context()); err != nil || strings.Count(out.String(), "\n") != 1 {
		t.Errorf("%v: %s", err, out.String())
	}
}
