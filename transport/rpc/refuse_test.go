package rpc

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"

	"kernos/kernel"
	"kernos/kernel/kerneltest"
	"kernos/store"
)

// A recorder keeps the types of the errors that pass.
type recorder struct {
	mu   sync.Mutex
	errs []string
}

func (r *recorder) Record(k kernel.Record) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if k.Message.Kind == "error" {
		r.errs = append(r.errs, string(k.Message.Type))
	}
}

func (r *recorder) RecordWith(_ *store.Batch, all []kernel.Record, apply func() error) error {
	for _, k := range all {
		r.Record(k)
	}
	return apply()
}

// A call that fails before it becomes a message is recorded; a method of the service itself isn't.
func TestCallsThatCanNotBeMadeAreRecorded(t *testing.T) {
	kept := new(recorder)
	get := kernel.Query(kernel.Definition{Type: "Note.Get", Summary: "Get."}, func(_ context.Context, in noteInput) (noteInput, error) { return in, nil })
	k := kerneltest.Of(t, &kernel.Options{Recorder: kept}, kernel.Module{Name: "note", Version: "1.2.3", Summary: "Notes.", Syscalls: []kernel.Syscall{get}})
	c := dial(t, New(k, nil))
	for _, method := range []string{"note_get", "note_nope", "nope_nope", "service_nope"} {
		c.send(`{"jsonrpc":"2.0","id":1,"method":%q,"params":"x"}`, method)
		if got := c.next(); !strings.Contains(got, "-32602") {
			t.Errorf("%s: %s", method, got)
		}
	}
	for _, method := range []string{"note_get", "note_nope", "nope_nope", "service_nope"} {
		c.items(c.call(method, `{"kee":1}`))
	}
	kept.mu.Lock()
	defer kept.mu.Unlock()
	if want := strings.Fields("Note.Get Note.Nope Nope.Nope Note.Get Note.Nope Nope.Nope"); !slices.Equal(kept.errs, want) {
		t.Errorf("recorded are %q, want %q", kept.errs, want)
	}
}
