package daemon_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"kernos/cluster/clustertest"
	"kernos/daemon"
	"kernos/internal/testkit"
	"kernos/kernel"
	"kernos/message"
	"kernos/transport/unix"
)

func TestMain(m *testing.M) { clustertest.Main(m) } // which checks that no goroutine is left

// A daemon that is told to end finishes what runs, and what it answers arrives.
func TestADaemonFinishesWhatRuns(t *testing.T) {
	runtime, err := os.MkdirTemp("", "kernos") // a short name, as sockets need it
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(runtime) })
	t.Setenv("XDG_RUNTIME_DIR", runtime)
	options := &daemon.Options{Home: t.TempDir(), Limits: daemon.Limits{Grace: time.Minute}, Socket: &daemon.Socket{}, Web: &daemon.Web{}}
	d, err := daemon.Open(options)
	if err != nil {
		t.Fatal(err)
	}
	// A second one changes nothing.
	if _, err := daemon.Open(options); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("process %d", os.Getpid())) {
		t.Errorf("a second daemon: %v", err)
	}
	begun, finish := make(chan struct{}), make(chan struct{})
	type nothing struct{}
	slow := kernel.Command(kernel.Definition{Type: "Test.Work", Summary: "Work.", Behavior: kernel.Behavior{Runs: kernel.Slow}},
		func(context.Context, nothing) (nothing, error) {
			close(begun)
			<-finish
			return nothing{}, nil
		})
	if err := d.Kernel().Registry().Add(kernel.Module{Name: "test", Version: "1.0.0", Summary: "For tests.", Syscalls: []kernel.Syscall{slow}}); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- errors.Join(d.Serve(t.Context()), d.Close()) }()
	socket, err := d.Home().Socket()
	if err != nil {
		t.Fatal(err)
	}
	dial := func() *unix.Conn {
		t.Helper()
		conn, err := new(unix.Dialer).Dial(t.Context(), socket)
		if err != nil {
			t.Fatal(err)
		}
		return conn
	}
	worker := dial()
	defer func() { _ = worker.Close() }()
	type result struct {
		outcome message.Message
		err     error
	}
	results := make(chan result, 1)
	go func() {
		outcome, err := worker.Ask(t.Context(), message.Message{Kind: message.KindCommand, Type: "Test.Work", Data: []byte("{}")})
		results <- result{outcome, err}
	}()
	<-begun
	other := dial()
	defer func() { _ = other.Close() }()
	outcome, err := other.Ask(t.Context(), message.Message{Kind: message.KindCommand, Type: "Syscall.Shutdown", Data: []byte("{}")})
	if err != nil || string(outcome.Data) != `{"success":true}` {
		t.Errorf("%v: %s", err, outcome.Data)
	}
	<-d.ShutdownRequested()
	testkit.Until(t, "no client is let in", func() bool {
		_, err := new(unix.Dialer).Dial(t.Context(), socket)
		return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED)
	})
	if _, running := unix.Inspect(socket); !running {
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
	if _, running := unix.Inspect(socket); running {
		t.Error("the lock is held")
	}
	// The outcome is in the journal.
	if d, err = daemon.Open(&daemon.Options{Home: options.Home}); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = d.Close() }()
	outcome, _ = d.Call(t.Context(), message.Message{Kind: message.KindQuery, Type: "Message.List", Data: []byte(`{"type":"Test.Work","kind":"reply"}`)}, nil)
	if strings.Count(string(outcome.Data), `"type":"Test.Work"`) != 1 {
		t.Errorf("the journal has %s", outcome.Data)
	}
}
