package kernel_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"kernos/kernel"
	"kernos/kernel/kerneltest"
	"kernos/message"
)

// calling answers with the outcome of another syscall.
func calling(t, other message.Type) kernel.Syscall {
	return kerneltest.AsCommand(kerneltest.Raw(t, func(ctx context.Context, m message.Message, emit kernel.Emit) {
		data, err := kernel.Invoke(ctx, other, m.Data)
		if err != nil {
			kernel.Fail(ctx, m, emit, err)
			return
		}
		emit(m.Reply(data))
	}))
}

// lineage answers with the metadata of its request.
var lineage = kerneltest.Raw("Test.Lineage", func(_ context.Context, m message.Message, emit kernel.Emit) {
	emit(m.Reply(fmt.Appendf(nil, "[%q,%q,%q,%q]", m.Metadata.ID, m.Metadata.Causation, m.Metadata.Correlation, m.Kind)))
})

func TestNestedCallsCarryTheLineageOfTheirCaller(t *testing.T) {
	var outer, inner message.Metadata
	note := func(to *message.Metadata, s kernel.Syscall) kernel.Syscall {
		next := s.Handler
		s.Handler = func(ctx context.Context, m message.Message, emit kernel.Emit) {
			*to = m.Metadata
			next(ctx, m, emit)
		}
		return s
	}
	k := kerneltest.New(t, nil, calling("Test.Outer", "Test.Middle"), note(&outer, calling("Test.Middle", "Test.Inner")), note(&inner, kerneltest.Echo("Test.Inner")))
	for _, correlation := range []string{"", "flow-1"} {
		m := kerneltest.Command("root", "Test.Outer", `7`)
		m.Metadata.Correlation = correlation
		if a := kerneltest.Answer(t, k, m); string(a.Data) != `7` {
			t.Errorf("got %s", a.Data)
		}
		workflow := correlation
		if workflow == "" {
			workflow = "root" // the workflow begins with the root
		}
		if outer.Causation != "root" || outer.Correlation != workflow || outer.ID == "" || outer.Timestamp == 0 {
			t.Errorf("the first has %+v", outer)
		}
		if inner.Causation != outer.ID || inner.Correlation != workflow || inner.ID == outer.ID {
			t.Errorf("the second has %+v after %+v", inner, outer)
		}
	}
}

func TestNestedCallsAreValidatedAndAnswered(t *testing.T) {
	type in struct {
		A string `json:"a"`
	}
	refuse := message.Errorf(409, "Taken: %w", message.Errorf(404, "Not there"))
	k := kerneltest.New(t, nil,
		kernel.Query(kernel.Definition{Type: "Test.Strict", Summary: "Strict."}, func(context.Context, in) (string, error) { return "fine", nil }),
		kernel.Command(kernel.Definition{Type: "Test.Refuse", Summary: "Refuse."}, func(context.Context, in) (string, error) { return "", refuse }),
		kerneltest.Raw("Test.Panic", func(context.Context, message.Message, kernel.Emit) { panic("secret") }),
		kerneltest.Raw("Test.Proxy", func(_ context.Context, _ message.Message, emit kernel.Emit) {
			emit(message.Message{Kind: message.KindError, Data: json.RawMessage(`{"code":418,"message":"tea"}`)})
		}),
		calling("Call.Strict", "Test.Strict"), calling("Call.Refuse", "Test.Refuse"), calling("Call.Panic", "Test.Panic"),
		calling("Call.Proxy", "Test.Proxy"), calling("Call.Absent", "Test.Strikt"), calling("Call.Bad", "not a type"),
	)
	if a := kerneltest.Answer(t, k, kerneltest.Command("1", "Call.Strict", `{"a":"x"}`)); string(a.Data) != `"fine"` {
		t.Errorf("got %s", a.Data)
	}
	for _, c := range []struct {
		name message.Type
		data string
		code int
		text string
	}{
		{"Call.Strict", `{}`, 422, "Schema validation failed: missing required field: a"},
		{"Call.Refuse", `{"a":"x"}`, 409, "Taken: Not there"},
		{"Call.Panic", `1`, 500, "Internal error in Test.Panic; the kernel's log has the details"},
		{"Call.Proxy", `1`, 418, "tea"},
		{"Call.Absent", `1`, 404, "No handler for Test.Strikt: did you mean Test.Strict? (Syscall.List names the syscalls; a handler for Test.Strikt has to be registered in the program that runs the kernel)"},
	} {
		if code, text := kerneltest.Failure(t, k, kerneltest.Command("1", c.name, c.data)); code != c.code || text != c.text {
			t.Errorf("%s: got %d %s", c.name, code, text)
		}
	}
	if code, _ := kerneltest.Failure(t, k, kerneltest.Command("1", "Call.Bad", `1`)); code != 422 {
		t.Errorf("got %d", code)
	}
}

// No data is null on the wire, so it is null here: fine for one, refused by another.
func TestNestedCallsMayHaveNoData(t *testing.T) {
	strict := kernel.Query(kernel.Definition{Type: "Test.Strict", Summary: "Strict."}, func(context.Context, struct{}) (string, error) { return "fine", nil })
	outer := kerneltest.Raw("Test.Outer", func(ctx context.Context, m message.Message, emit kernel.Emit) {
		var other message.Type
		if err := json.Unmarshal(m.Data, &other); err != nil {
			kernel.Fail(ctx, m, emit, err)
			return
		}
		data, err := kernel.Invoke(ctx, other, nil)
		if err != nil {
			kernel.Fail(ctx, m, emit, err)
			return
		}
		emit(m.Reply(data))
	})
	k := kerneltest.New(t, nil, kerneltest.Echo("Test.Echo"), strict, outer)
	if a := kerneltest.Answer(t, k, kerneltest.Query("1", "Test.Outer", `"Test.Echo"`)); string(a.Data) != "null" {
		t.Errorf("got %s", a.Data)
	}
	const want = "Schema validation failed: data: expected an object, got null"
	if code, text := kerneltest.Failure(t, k, kerneltest.Query("1", "Test.Outer", `"Test.Strict"`)); code != 422 || text != want {
		t.Errorf("got %d %s", code, text)
	}
}

func TestQueriesMayNotCallCommands(t *testing.T) {
	asQuery := func(s kernel.Syscall) kernel.Syscall {
		s.Kind = message.KindQuery
		return s
	}
	ran := false
	k := kerneltest.New(t, nil,
		kerneltest.AsCommand(kerneltest.Raw("Test.Change", func(_ context.Context, m message.Message, emit kernel.Emit) {
			ran = true
			emit(m.Reply(nil))
		})),
		kerneltest.Echo("Test.Read"),
		asQuery(calling("Query.Change", "Test.Change")),
		asQuery(calling("Query.Read", "Test.Read")),
		asQuery(calling("Query.Deep", "Query.Change")),
		calling("Command.Change", "Test.Change"),
	)
	for _, m := range []message.Message{
		kerneltest.Query("1", "Query.Change", `1`), kerneltest.Query("1", "Query.Deep", `1`),
		kerneltest.Command("1", "Query.Change", `1`), // its definition counts, not the word of its caller
	} {
		if code, text := kerneltest.Failure(t, k, m); code != 403 || text != "Query.Change is a query and may not call the command Test.Change" {
			t.Errorf("%s: got %d %s", m.Type, code, text)
		}
	}
	if ran {
		t.Error("the command ran")
	}
	for _, m := range []message.Message{kerneltest.Query("1", "Query.Read", `1`), kerneltest.Command("1", "Command.Change", `1`)} {
		if a := kerneltest.Answer(t, k, m); a.Kind != message.KindReply {
			t.Errorf("%s: got %s", m.Type, a.Data)
		}
	}
}

func TestNestedCallsEndAtADepth(t *testing.T) {
	depth := 0
	k := kerneltest.New(t, nil, kerneltest.Raw("Test.Dig", func(ctx context.Context, m message.Message, emit kernel.Emit) {
		depth++
		_, err := kernel.Invoke(ctx, "Test.Dig", m.Data)
		kernel.Fail(ctx, m, emit, err)
	}))
	code, text := kerneltest.Failure(t, k, kerneltest.Query("1", "Test.Dig", `1`))
	if code != 508 || text != "Calls nest deeper than 32: Test.Dig calls Test.Dig" {
		t.Errorf("got %d %s", code, text)
	}
	if depth != 33 {
		t.Errorf("it was called %d times", depth)
	}
}

func TestNestedCallsPassTheirEventsOn(t *testing.T) {
	inner := kerneltest.Raw("Test.Inner", func(_ context.Context, m message.Message, emit kernel.Emit) {
		emit(m.Event("Job.Started", json.RawMessage(`1`)))
		emit(m.Reply(m.Data))
	})
	inner.Emits = []kernel.EventDefinition{{Type: "Job.Started"}}
	k := kerneltest.New(t, nil, inner, calling("Test.Outer", "Test.Inner"))
	all := kerneltest.Ask(k, kerneltest.Command("root", "Test.Outer", `7`))
	if len(all) != 2 || all[0].Type != "Job.Started" || all[1].Kind != message.KindReply {
		t.Fatalf("got %s", kerneltest.Texts(all))
	}
	// The event was caused by the nested call, which the root caused.
	if m := all[0].Metadata; m.Correlation != "root" || m.Causation == "root" || m.Causation == "" {
		t.Errorf("got %+v", m)
	}
}

func TestNestedCallsNeedACall(t *testing.T) {
	_, err := kernel.Invoke(context.Background(), "Test.Echo", nil)
	if e, ok := errors.AsType[*message.Error](err); !ok || e.Code != 500 {
		t.Errorf("got %v", err)
	}
}

func TestNestedCallsWorkWithContextsMadeFromTheCalls(t *testing.T) {
	k := kerneltest.New(t, nil, lineage, kerneltest.Raw("Test.Outer", func(ctx context.Context, m message.Message, emit kernel.Emit) {
		child, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		data, err := kernel.Invoke(child, "Test.Lineage", m.Data)
		if err != nil {
			kernel.Fail(ctx, m, emit, err)
			return
		}
		emit(m.Reply(data))
	}))
	var got [4]string
	if err := json.Unmarshal(kerneltest.Answer(t, k, kerneltest.Query("root", "Test.Outer", `1`)).Data, &got); err != nil {
		t.Fatal(err)
	}
	if got[1] != "root" || got[2] != "root" || got[3] != "query" {
		t.Errorf("got %q", got)
	}
}

// A nested call has no more time than its caller, and no more than its own.
func TestNestedCallsHaveTheEarlierDeadline(t *testing.T) {
	for _, c := range []struct{ outer, inner, want time.Duration }{
		{time.Second, time.Minute, time.Second}, {time.Minute, time.Second, time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			k := kerneltest.New(t, nil, kerneltest.Within(c.outer, calling("Test.Outer", "Test.Wait")), kerneltest.Within(c.inner, kerneltest.Cooperative("Test.Wait")))
			start := time.Now()
			code, _ := kerneltest.Failure(t, k, kerneltest.Command("1", "Test.Outer", `1`))
			if code != 504 || time.Since(start) != c.want {
				t.Errorf("%+v: got %d after %v", c, code, time.Since(start))
			}
		})
	}
}

// A nested handler that ignores its deadline is answered for at that deadline, like
// any other.
func TestNestedHandlersThatOverstayAreAnsweredFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		k := kerneltest.New(t, nil, kerneltest.Within(time.Minute, calling("Test.Outer", "Test.Wait")), kerneltest.Within(time.Second, kerneltest.Stubborn("Test.Wait", release)))
		time.AfterFunc(30*time.Second, func() { close(release) })
		start := time.Now()
		code, _ := kerneltest.Failure(t, k, kerneltest.Command("1", "Test.Outer", `1`))
		if code != 504 || time.Since(start) != time.Second {
			t.Errorf("got %d after %v", code, time.Since(start))
		}
		<-release
	})
}
