package kernel_test

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"kernos/internal/testkit"
	"kernos/kernel"
	"kernos/kernel/connection"
	"kernos/kernel/kerneltest"
	"kernos/message"
	"kernos/schema"
)

// A message's data lies in a buffer that is used again. A nested handler that is left
// behind must not see what comes next.
func TestNestedHandlerKeepsItsData(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release, seen := make(chan struct{}), make(chan string, 1)
		k := kerneltest.New(t, nil, kerneltest.Echo("Test.Echo"),
			kerneltest.Raw("Test.Parent", func(ctx context.Context, m message.Message, emit kernel.Emit) {
				_, err := kernel.Invoke(ctx, "Test.Child", m.Data)
				kernel.Fail(ctx, m, emit, err)
			}),
			kerneltest.Within(time.Second, kerneltest.Raw("Test.Child", func(_ context.Context, m message.Message, _ kernel.Emit) {
				<-release
				seen <- string(m.Data)
			})))
		conn := kerneltest.Connect(k)
		conn.In <- kerneltest.Query("1", "Test.Parent", `"mine"`)
		conn.In <- kerneltest.Query("2", "Test.Echo", `"another one\u0027s"`)
		time.Sleep(2 * time.Second)
		close(release)
		if got := <-seen; got != `"mine"` {
			t.Errorf("the handler that was left behind sees %s", got)
		}
		if err := conn.End(); err != nil {
			t.Error(err)
		}
	})
}

// Whatever a handler makes of its request, C3 holds.
func TestEventsMadeFromTheRequestHaveLineageOfTheirOwn(t *testing.T) {
	s := kerneltest.Raw("Test.Run", func(_ context.Context, m message.Message, emit kernel.Emit) {
		e := m
		e.Kind, e.Type = message.KindEvent, "Test.Done"
		emit(e)
		emit(m.Reply(nil))
	})
	s.Emits = []kernel.EventDefinition{{Type: "Test.Done", Summary: "Done."}}
	m := kerneltest.Query("a", "Test.Run", `1`)
	m.Metadata.Causation = "parent"
	all := kerneltest.Ask(kerneltest.New(t, nil, s), m)
	if len(all) != 2 {
		t.Fatalf("got %s", kerneltest.Texts(all))
	}
	e := all[0].Metadata
	if e.ID == "a" || e.Causation != "a" || e.Correlation != "a" || e.Timestamp == m.Metadata.Timestamp {
		t.Errorf("the event has the lineage %+v", e)
	}
}

func TestErrorsThatWereChangedAfterwardsAreStillErrors(t *testing.T) {
	k := kerneltest.New(t, nil, kerneltest.Raw("Test.Run", func(_ context.Context, m message.Message, emit kernel.Emit) {
		f := m.Fail(message.Errorf(404, "x"))
		f.Data = []byte("not json \n at all")
		emit(f)
	}))
	if code, text := kerneltest.Failure(t, k, kerneltest.Query("1", "Test.Run", `1`)); code != 404 || text != "x" {
		t.Errorf("got %d %s", code, text)
	}
}

type brokenBlobs struct{ kerneltest.NoBlobs }

func (brokenBlobs) Put(context.Context, []byte) (message.BlobPointer, error) { panic("no disk") }

func TestFitComesBackFromBlobsThatPanic(t *testing.T) {
	var log testkit.Notes
	k := kerneltest.New(t, &kernel.Options{Blobs: brokenBlobs{}, Log: log.Logger()}, kerneltest.Echo("Test.Echo"))
	m := message.Message{Kind: message.KindReply, Type: "Test.Echo", Data: []byte(`"` + strings.Repeat("x", 100) + `"`)}
	got := k.Fit(t.Context(), m, 50, func(m *message.Message) int { return len(m.Data) })
	if code, _ := kerneltest.ReadError(t, got); code != 413 || !log.Has("no disk") {
		t.Errorf("got %s, and in the log %s", got.Data, &log)
	}
}

func TestCheckingThatPanicsIsA500(t *testing.T) {
	var log testkit.Notes
	s := kerneltest.Echo("Test.Echo")
	k := kerneltest.New(t, &kernel.Options{Log: log.Logger()}, s, kerneltest.Echo("Test.Other"))
	// A schema that can't be used, in a place where none should be.
	registered, _ := k.Registry().Lookup("Test.Echo")
	registered.Input = schema.Input[chain]()
	if code, _ := kerneltest.Failure(t, k, kerneltest.Query("1", "Test.Echo", `1`)); code != 500 || !log.Has("contains itself") {
		t.Errorf("got %d, and in the log %s", code, &log)
	}
	if a := kerneltest.Answer(t, k, kerneltest.Query("2", "Test.Other", `2`)); string(a.Data) != "2" {
		t.Errorf("got %s", a.Data)
	}
}

// When the wire has broken, nothing waits for what is still running.
func TestServeCancelsWhatRunsWhenItsSourceBreaks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		k := kerneltest.New(t, nil, kerneltest.Slow(kerneltest.Cooperative("Test.Wait")))
		src := &breaking{m: kerneltest.Query("1", "Test.Wait", `1`), err: errors.New("the wire broke")}
		if err := connection.New(k, src, nil).Serve(t.Context()); !errors.Is(err, src.err) {
			t.Errorf("got %v", err)
		}
		if took := time.Since(start); took != 0 {
			t.Errorf("it took %v", took)
		}
	})
}

// breaking is a source of one message and an error.
type breaking struct {
	m    message.Message
	err  error
	sent bool
}

func (b *breaking) Next() (*message.Message, kernel.Emit, error) {
	if b.sent {
		return nil, nil, b.err
	}
	b.sent = true
	b.m.Data = bytes.Clone(b.m.Data)
	return &b.m, func(message.Message) {}, nil
}

func (b *breaking) Detach()                   {}
func (b *breaking) Flush()                    {}
func (b *breaking) Writable(wait bool) bool   { return wait }
func (b *breaking) Left(<-chan struct{}) bool { return false }

// A command must not run after its caller was told that it did not.
func TestCallsThatAreLateDoNotBegin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		ran := false
		k := kerneltest.New(t, nil,
			kerneltest.Within(time.Second, kerneltest.Raw("Test.Parent", func(ctx context.Context, m message.Message, emit kernel.Emit) {
				<-release
				_, err := kernel.Invoke(ctx, "Test.Child", m.Data)
				if e, _ := message.ErrorOf(err); e.Code != 504 {
					t.Errorf("got %v", err)
				}
			})),
			kerneltest.Raw("Test.Child", func(context.Context, message.Message, kernel.Emit) { ran = true }))
		if code, _ := kerneltest.Failure(t, k, kerneltest.Query("1", "Test.Parent", `1`)); code != 504 {
			t.Errorf("got %d", code)
		}
		close(release)
		synctest.Wait()
		if ran {
			t.Error("the nested call ran after its parent was answered for")
		}
	})
}

// Waiting for one of the places of slow calls does not use up a call's time.
func TestSlowCallsHaveTheirTimeToThemselves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		k := kerneltest.New(t, nil, kerneltest.Slow(kerneltest.Within(time.Second, kerneltest.Stubborn("Test.Stay", release))),
			kerneltest.Slow(kerneltest.Within(time.Second, kerneltest.Raw("Test.Quick", func(ctx context.Context, m message.Message, emit kernel.Emit) {
				if ctx.Err() != nil {
					t.Error("it begins late")
				}
				emit(m.Reply(m.Data))
			}))))
		conn := kerneltest.Connect(k)
		for range kernel.DefaultInFlight {
			conn.In <- kerneltest.Query("stay", "Test.Stay", `1`)
		}
		conn.In <- kerneltest.Query("quick", "Test.Quick", `2`)
		if err := conn.End(); err != nil {
			t.Error(err)
		}
		close(release)
		if got := conn.SoFar(t); !slices.Contains(got, "quick 2") {
			t.Errorf("got %v", got)
		}
	})
}

// The words of a decoder quote what it could not read.
func TestInputThatCanNotBeDecodedStaysSecret(t *testing.T) {
	type in struct {
		When time.Time `json:"when" jsonschema:"writeOnly=true"`
	}
	var log testkit.Notes
	k := kerneltest.New(t, &kernel.Options{Log: log.Logger()}, kernel.Query(kernel.Definition{Type: "Test.Read", Summary: "Read."},
		func(context.Context, in) (string, error) { return "", nil }))
	code, text := kerneltest.Failure(t, k, kerneltest.Query("1", "Test.Read", `{"when":"2016-12-31t23:59:59z"}`)) // fine by RFC 3339, not by Go
	if code != 422 || text != "Schema validation failed: Test.Read can't read its input at /when" {
		t.Errorf("got %d %s", code, text)
	}
	if !log.Has("2016") {
		t.Errorf("the operator sees %s", &log)
	}
}

// An interrupt ends the reading, not the answers.
func TestFitKeepsBlobsAfterTheConnectionIsDone(t *testing.T) {
	k := kerneltest.New(t, &kernel.Options{Blobs: slowBlobs{}}, kerneltest.Echo("Test.Echo"))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	m := message.Message{Kind: message.KindReply, Type: "Test.Echo", Data: []byte(`"` + strings.Repeat("x", 100) + `"`)}
	got := k.Fit(ctx, m, 60, func(m *message.Message) int { return len(m.Data) })
	if got.Kind != message.KindReply {
		t.Errorf("got %s", got.Data)
	}
}

type slowBlobs struct{ kerneltest.NoBlobs }

func (slowBlobs) Put(ctx context.Context, _ []byte) (message.BlobPointer, error) {
	return message.FileBlob("/b"), ctx.Err()
}
