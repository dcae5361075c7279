package kernel_test

import (
	"context"
	"encoding/json"
	"errors"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"kernos/internal/testkit"
	"kernos/kernel"
	"kernos/kernel/kerneltest"
	"kernos/message"
	"kernos/store"
)

// Invariants: C1.
//
// Clauses: M24-4.2.1-3 M24-4.2.2-3
func TestCallHasExactlyOneOutcome(t *testing.T) {
	declared := []kernel.EventDefinition{{Type: "Job.Completed", Summary: "Done."}}
	const leak = "hunter2"
	for _, c := range []struct {
		name    string
		handler kernel.Handler
		want    []string // kind and type, or the code of an error
		log     string
	}{
		{"a second reply is dropped", func(_ context.Context, m message.Message, emit kernel.Emit) {
			emit(m.Reply(json.RawMessage(`1`)))
			emit(m.Reply(json.RawMessage(`2`)))
		}, []string{"reply 1"}, "second outcome"},
		{"an error after a reply is dropped", func(_ context.Context, m message.Message, emit kernel.Emit) {
			emit(m.Reply(json.RawMessage(`1`)))
			emit(m.Fail(message.Errorf(400, "x")))
		}, []string{"reply 1"}, "second outcome"},
		{"a second outcome is logged although the context is in use", func(ctx context.Context, m message.Message, emit kernel.Emit) {
			ctx.Done()
			emit(m.Reply(json.RawMessage(`1`)))
			emit(m.Reply(json.RawMessage(`2`)))
		}, []string{"reply 1"}, "second outcome"},
		{"an event after the outcome is dropped", func(_ context.Context, m message.Message, emit kernel.Emit) {
			emit(m.Event("Job.Completed", json.RawMessage(`1`)))
			emit(m.Reply(json.RawMessage(`1`)))
			emit(m.Event("Job.Completed", json.RawMessage(`2`)))
		}, []string{"event 1", "reply 1"}, ""},
		{"no outcome is a 500", func(context.Context, message.Message, kernel.Emit) {}, []string{"500"}, "without an outcome"},
		{"no outcome after an event is a 500", func(_ context.Context, m message.Message, emit kernel.Emit) {
			emit(m.Event("Job.Completed", json.RawMessage(`1`)))
		}, []string{"event 1", "500"}, "without an outcome"},
		{"a panic is a 500", func(context.Context, message.Message, kernel.Emit) { panic(leak) }, []string{"500"}, leak},
		{"a panic after the outcome changes nothing", func(_ context.Context, m message.Message, emit kernel.Emit) {
			emit(m.Reply(json.RawMessage(`1`)))
			panic(errors.New(leak))
		}, []string{"reply 1"}, leak},
		{"a goroutine that ends is a 500", func(context.Context, message.Message, kernel.Emit) { runtime.Goexit() }, []string{"500"}, "handler panicked"},
		{"an event that is not declared is a 500", func(_ context.Context, m message.Message, emit kernel.Emit) {
			emit(m.Event("Job.Started", json.RawMessage(`1`)))
			emit(m.Reply(json.RawMessage(`1`)))
		}, []string{"500"}, "Job.Started"},
		{"a command is nothing to emit", func(_ context.Context, m message.Message, emit kernel.Emit) { emit(m) }, []string{"500"}, "emitted a query"},
		{"an invalid kind is nothing to emit", func(_ context.Context, _ message.Message, emit kernel.Emit) { emit(message.Message{}) }, []string{"500"}, "handler emitted"},
		{"data that is not JSON is a 500", func(_ context.Context, m message.Message, emit kernel.Emit) {
			emit(m.Reply(json.RawMessage(`{"a":` + leak)))
		}, []string{"500"}, "not JSON"},
		{"data with repeated names is a 500", func(_ context.Context, m message.Message, emit kernel.Emit) {
			emit(m.Reply(json.RawMessage(`{"a":1,"a":2}`)))
		}, []string{"500"}, "repeated member name"},
		{"no data is null", func(_ context.Context, m message.Message, emit kernel.Emit) { emit(m.Reply(nil)) }, []string{"reply null"}, ""},
		{"data on several lines is put on one", func(_ context.Context, m message.Message, emit kernel.Emit) {
			emit(m.Reply(json.RawMessage("{\n \"a\": \"b c\"\n}")))
		}, []string{`reply {"a":"b c"}`}, ""},
		{"error data that is an error is passed on", func(_ context.Context, m message.Message, emit kernel.Emit) {
			emit(message.Message{Kind: message.KindError, Data: json.RawMessage(`{"code":418,"message":"tea"}`)})
		}, []string{"418"}, ""},
		{"error data that is no error is a 500", func(_ context.Context, m message.Message, emit kernel.Emit) {
			emit(message.Message{Kind: message.KindError, Data: json.RawMessage(`{"code":200,"message":"` + leak + `"}`)})
		}, []string{"500"}, "not an error"},
		{"error data that is not JSON is a 500 and no panic", func(_ context.Context, m message.Message, emit kernel.Emit) {
			emit(message.Message{Kind: message.KindError, Data: json.RawMessage(`{"code"`)})
		}, []string{"500"}, "data that is"},
		{"an error with an invalid code is a 500", func(_ context.Context, m message.Message, emit kernel.Emit) {
			emit(m.Fail(&message.Error{Message: "forgot the code"}))
		}, []string{"500"}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log testkit.Notes
				s := kerneltest.Raw("Job.Run", c.handler)
				s.Emits = declared
				k := kerneltest.New(t, &kernel.Options{Log: log.Logger()}, s)
				var got []string
				for _, m := range kerneltest.Ask(k, kerneltest.Query("req-1", "Job.Run", `0`)) {
					if err := m.Validate(); err != nil {
						t.Errorf("%s is no message: %v", kerneltest.Texts([]message.Message{m}), err)
					}
					if m.Metadata.Causation != "req-1" {
						t.Errorf("got the lineage %+v", m.Metadata)
					}
					if strings.Contains(string(m.Data), leak) || strings.Contains(string(m.Data), ".go:") {
						t.Errorf("the caller sees %s", m.Data)
					}
					if m.Kind == message.KindError {
						e, err := message.ParseError(m.Data)
						if err != nil {
							t.Errorf("%s: %v", m.Data, err)
							continue
						}
						got = append(got, strconv.Itoa(e.Code))
						continue
					}
					got = append(got, string(m.Kind)+" "+string(m.Data))
				}
				if !slices.Equal(got, c.want) {
					t.Errorf("got %q, want %q", got, c.want)
				}
				synctest.Wait() // the outcome may come before the handler's end
				if c.log == "" && log.String() != "" || !log.Has(c.log) {
					t.Errorf("the log has %q, not %q", &log, c.log)
				}
				if c.log != "" && !log.Has("id=req-1", "type=Job.Run") {
					t.Errorf("the log does not say which call: %q", &log)
				}
			})
		})
	}
}

// The log has what has happened, and where; the answer has neither.
//
// Clauses: M24-8.2-1
func TestPanicLeavesItsStackInTheLogOnly(t *testing.T) {
	var log testkit.Notes
	k := kerneltest.New(t, &kernel.Options{Log: log.Logger()}, kerneltest.Raw("Job.Run", func(context.Context, message.Message, kernel.Emit) { panic("boom") }))
	a := kerneltest.Answer(t, k, kerneltest.Query("1", "Job.Run", `0`))
	if code, text := kerneltest.ReadError(t, a); code != 500 || text != "Internal error in Job.Run; the kernel's log has the details" {
		t.Errorf("got %d %s", code, text)
	}
	if !log.Has("boom", "call_test.go:") {
		t.Errorf("the log has %q", &log)
	}
}

// The answer says what it answers, whatever the handler wrote there.
func TestOutcomeCarriesTheLineageOfItsRequest(t *testing.T) {
	k := kerneltest.New(t, nil, kerneltest.Raw("Job.Run", func(_ context.Context, _ message.Message, emit kernel.Emit) {
		emit(message.Message{Kind: message.KindReply, Type: "Other.Thing", Data: json.RawMessage(`1`),
			Metadata: message.Metadata{Causation: "other", Correlation: "other"}})
	}))
	m := kerneltest.Query("req-1", "Job.Run", `0`)
	m.Metadata.Correlation = "flow-1"
	kerneltest.Answer(t, k, m)
}

// A handler may build its reply from the request; the id stays the request's own.
func TestOutcomeHasAnIDOfItsOwn(t *testing.T) {
	k := kerneltest.New(t, nil, kerneltest.Raw("Job.Run", func(_ context.Context, m message.Message, emit kernel.Emit) {
		m.Kind = message.KindReply
		emit(m)
	}))
	if a := kerneltest.Answer(t, k, kerneltest.Query("req-1", "Job.Run", `0`)); a.Metadata.ID == "req-1" {
		t.Error("the reply has the id of its request")
	}
}

func TestEmitIsSafeForConcurrentUse(t *testing.T) {
	s := kerneltest.Raw("Job.Run", func(_ context.Context, m message.Message, emit kernel.Emit) {
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				for range 20 {
					emit(m.Event("Job.Completed", json.RawMessage(`1`)))
				}
				emit(m.Reply(json.RawMessage(`2`)))
			})
		}
		wg.Wait()
	})
	s.Emits = []kernel.EventDefinition{{Type: "Job.Completed"}}
	k := kerneltest.New(t, nil, s)
	all := kerneltest.Ask(k, kerneltest.Query("1", "Job.Run", `0`))
	outcomes := 0
	for i, m := range all {
		if m.Kind.Answers() {
			outcomes++
			if i != len(all)-1 {
				t.Errorf("the outcome is answer %d of %d", i+1, len(all))
			}
		}
	}
	if outcomes != 1 {
		t.Errorf("got %d outcomes", outcomes)
	}
}

func TestIDsSortInTheOrderInWhichTheyWereMade(t *testing.T) {
	k := kerneltest.New(t, nil)
	last := message.ID("")
	for range 10000 {
		var m message.Message
		k.Stamp(&m)
		if m.Metadata.ID <= last {
			t.Fatalf("%s comes after %s", m.Metadata.ID, last)
		}
		last = m.Metadata.ID
	}
	m := message.Message{Metadata: message.Metadata{ID: "mine", Timestamp: 5}}
	k.Stamp(&m)
	if m.Metadata.ID != "mine" || m.Metadata.Timestamp != 5 {
		t.Errorf("got %+v", m.Metadata)
	}
}

// What a handler emits after its deadline is dropped, and the outcome is a 504, however late the
// timer is that watches the call: here there is none.
// Invariants: C2.
func TestWhatComesAfterTheDeadlineIsDropped(t *testing.T) {
	for name, end := range map[string]func(message.Message, kernel.Emit){
		"an event": func(m message.Message, emit kernel.Emit) {
			emit(m.Event(kernel.Progressed, json.RawMessage(`{}`)))
			emit(m.Reply(nil))
		},
		"a reply":    func(m message.Message, emit kernel.Emit) { emit(m.Reply(nil)) },
		"an error":   func(m message.Message, emit kernel.Emit) { emit(m.Fail(message.Errorf(404, "x"))) },
		"a panic":    func(message.Message, kernel.Emit) { panic("too late") },
		"no outcome": func(message.Message, kernel.Emit) {},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				k := kerneltest.New(t, nil, kerneltest.Within(time.Second, kerneltest.Raw("Test.Hang", func(_ context.Context, m message.Message, emit kernel.Emit) {
					time.Sleep(time.Second)
					end(m, emit)
				})))
				var got []message.Message
				m := kerneltest.Query("1", "Test.Hang", `1`)
				k.Admit(t.Context(), &m, func(m message.Message) { got = append(got, m) }, atOnce{}).Run()
				if len(got) != 1 {
					t.Fatalf("got %s", kerneltest.Texts(got))
				}
				if code, _ := kerneltest.ReadError(t, got[0]); code != 504 {
					t.Errorf("got %s", kerneltest.Texts(got))
				}
			})
		})
	}
}

// atOnce is an origin that sends everything at once.
type atOnce struct{}

func (atOnce) Sender(message.ID) kernel.Sender { return kernel.Sender{} }

func (atOnce) Post(send kernel.Emit, m message.Message, _ *store.Commit) { send(m) }
