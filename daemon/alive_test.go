package daemon

import (
	"context"
	"errors"
	"testing"

	"kernos/capability/introspect"
	"kernos/kernel"
	"kernos/kernel/kerneltest"
	"kernos/message"
)

// A sign of life is an answer of the kernel, and leaves no record.
func TestAliveAsksTheKernel(t *testing.T) {
	d, err := Open(&Options{Home: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	before := d.Status().Store.Messages
	if err := d.Alive(t.Context()); err != nil {
		t.Error(err)
	}
	if after := d.Status().Store.Messages; after != before {
		t.Errorf("it left %d messages in the journal", after-before)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestAStuckKernelIsNotAlive(t *testing.T) {
	begun, leave := make(chan struct{}), make(chan struct{})
	stuck := introspect.Ping
	stuck.Handler = func(_ context.Context, m message.Message, emit kernel.Emit) {
		close(begun)
		<-leave
		emit(m.Reply(m.Data))
	}
	d := &Daemon{kernel: kerneltest.New(t, nil, stuck)}
	ctx, cancel := context.WithCancelCause(t.Context())
	late := errors.New("late")
	go func() {
		<-begun
		cancel(late)
	}()
	if err := d.Alive(ctx); err == nil {
		t.Error("it is taken for alive")
	}
	close(leave)
}
