//go:build unix

package daemon_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"kernos/daemon"
	"kernos/internal/testkit"
	"kernos/kernel"
	"kernos/kernel/kerneltest"
	"kernos/message"
)

// canceling is what a canceled job may have called. Each says how the job is started, and how it
// is known that the call has begun and that it has ended.
type canceling struct {
	job          string
	begun, ended func()
}

// What a job has called ends when the job is canceled: a nested call, a request to a server, a
// program on a connection, a tool with the processes that it has started.
func TestACanceledJobStopsWhatItHasCalled(t *testing.T) {
	dir := t.TempDir()
	began, over := make(chan struct{}, 1), make(chan struct{}, 1)
	hang := func(ctx context.Context) {
		began <- struct{}{}
		<-ctx.Done()
		over <- struct{}{}
	}
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { hang(r.Context()) }))
	defer server.Close()
	nested := kernel.Module{Name: "nested", Version: "1.0.0", Summary: "For the test.", Syscalls: []kernel.Syscall{
		kernel.Command(kernel.Definition{Type: "Nested.Inner", Summary: "Wait.", Runs: kernel.Slow, Effect: kernel.External}, func(ctx context.Context, in struct{}) (struct{}, error) {
			hang(ctx)
			return in, ctx.Err()
		}),
		kernel.Command(kernel.Definition{Type: "Nested.Outer", Summary: "Call.", Runs: kernel.Slow, Effect: kernel.External}, func(ctx context.Context, in struct{}) (struct{}, error) {
			_, err := kernel.Invoke(ctx, "Nested.Inner", []byte(`{}`))
			return in, err
		}),
	}}
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"agent.md": "---\ntools: [./tool]\n---\n", "tool": "#!/bin/sh\nexec 5>" + pipe + "\nsleep 1000 &\nsleep 1000\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	d, err := daemon.Open(&daemon.Options{
		Home: t.TempDir(), Modules: []kernel.Module{nested}, Files: daemon.Files{Mounts: []string{"/=" + dir}}, Fetch: daemon.Fetch{Allow: []string{"127.0.0.1"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- d.Serve(ctx) }()
	defer func() {
		stop()
		if err := errors.Join(<-served, d.Close()); err != nil {
			t.Error(err)
		}
	}()
	call := func(what message.Type, data string, out any) *message.Error {
		t.Helper()
		m, err := d.Call(t.Context(), message.Message{Kind: message.KindCommand, Type: what, Data: []byte(data)}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if m.Kind == message.KindError {
			e, _ := m.Failure()
			return e
		}
		if err := json.Unmarshal(m.Data, out); err != nil {
			t.Fatalf("%s: %s: %v", what, m.Data, err)
		}
		return nil
	}
	testkit.Until(t, "jobs run", func() bool { return call("Job.Resume", `{}`, new(any)) == nil })

	program := kerneltest.Connect(d.Kernel())
	defer close(program.In)
	has := func(what message.Type) func() {
		return func() {
			testkit.Until(t, fmt.Sprintf("the program has %s", what), func() bool {
				for _, m := range program.Messages() {
					if m.Type == what && !m.Kind.Answers() {
						return true
					}
				}
				return false
			})
		}
	}
	program.In <- message.Message{Kind: message.KindCommand, Type: "Syscall.Register", Data: []byte(`{"name":"Text.Send","kind":"command","inputSchema":{},"outputSchema":{}}`), Metadata: message.Metadata{ID: "register", Timestamp: 1}}
	testkit.Until(t, "the program serves", func() bool { _, ok := d.Kernel().Registry().Lookup("Text.Send"); return ok })

	var opened *os.File
	for name, c := range map[string]canceling{
		"a nested call": {`{"name":"Nested.Outer"}`, func() { <-began }, func() { <-over }},
		"a step":        {`{"steps":[{"id":"a","name":"Nested.Outer"}]}`, func() { <-began }, func() { <-over }},
		"a request":     {fmt.Sprintf(`{"name":"Http.Fetch","payload":{"url":%q}}`, server.URL), func() { <-began }, func() { <-over }},
		"a program":     {`{"name":"Text.Send","payload":{}}`, has("Text.Send"), has("Syscall.Cancelled")},
		"a tool": {`{"name":"Content.Hydrate","payload":{"uri":"os:///agent.md"}}`, func() {
			if opened, err = os.Open(pipe); err != nil { // when the tool has
				t.Fatal(err)
			}
		}, func() {
			_, err := io.Copy(io.Discard, opened) // until no process has it
			if err := errors.Join(err, opened.Close()); err != nil {
				t.Error(err)
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			var started struct{ JobID string }
			if e := call("Job.Start", c.job, &started); e != nil {
				t.Fatal(e)
			}
			c.begun()
			id := fmt.Sprintf(`{"jobId":%q}`, started.JobID)
			var canceled struct{ Canceled bool }
			if e := call("Job.Cancel", id, &canceled); e != nil || !canceled.Canceled {
				t.Errorf("it is canceled: %t, %v", canceled.Canceled, e)
			}
			c.ended()
			var job struct {
				Status string
				Error  struct{ Code int }
			}
			if e := call("Job.Wait", id, &job); e != nil || job.Status != "failed" || job.Error.Code != 499 {
				t.Errorf("it is %+v, %v", job, e)
			}
		})
	}
}
