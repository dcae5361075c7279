package kernel

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"kernos/message"
)

// asCommand makes a syscall a command.
func asCommand(s Syscall) Syscall {
	s.Kind = message.KindCommand
	return s
}

// calling answers with the outcome of another syscall.
func calling(t, other message.Type) Syscall {
	return asCommand(raw(t, func(ctx context.Context, m message.Message, emit Emit) {
		data, err := Call(ctx, other, m.Data)
		if err != nil {
			Fail(ctx, m, emit, err)
			return
		}
		emit(m.Reply(data))
	}))
}

// lineage answers with the metadata of its request.
var lineage = raw("Test.Lineage", func(_ context.Context, m message.Message, emit Emit) {
	emit(m.Reply(fmt.Appendf(nil, "[%q,%q,%q,%q]", m.Metadata.ID, m.Metadata.Causation, m.Metadata.Correlation, m.Kind)))
})

func TestNestedCallsCarryTheLineageOfTheirCaller(t *testing.T) {
	var outer, inner message.Metadata
	note := func(to *message.Metadata, s Syscall) Syscall {
		next := s.Handler
		s.Handler = func(ctx context.Context, m message.Message, emit Emit) {
			*to = m.Metadata
			next(ctx, m, emit)
		}
		return s
	}
	k := newKernel(t, nil, calling("Test.Outer", "Test.Middle"), note(&outer, calling("Test.Middle", "Test.Inner")), note(&inner, echo("Test.Inner")))
	for _, correlation := range []string{"", "flow-1"} {
		m := command("root", "Test.Outer", `7`)
		m.Metadata.Correlation = correlation
		if a := answer(t, k, m); string(a.Data) != `7` {
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
	k := newKernel(t, nil,
		Query(Definition{Type: "Test.Strict", Summary: "Strict."}, func(context.Context, in) (string, error) { return "fine", nil }),
		Command(Definition{Type: "Test.Refuse", Summary: "Refuse."}, func(context.Context, in) (string, error) { return "", refuse }),
		raw("Test.Panic", func(context.Context, message.Message, Emit) { panic("secret") }),
		raw("Test.Proxy", func(_ context.Context, _ message.Message, emit Emit) {
			emit(message.Message{Kind: message.KindError, Data: json.RawMessage(`{"code":418,"message":"tea"}`)})
		}),
		calling("Call.Strict", "Test.Strict"), calling("Call.Refuse", "Test.Refuse"), calling("Call.Panic", "Test.Panic"),
		calling("Call.Proxy", "Test.Proxy"), calling("Call.Nobody", "Test.Strikt"), calling("Call.Bad", "not a type"),
	)
	if a := answer(t, k, command("1", "Call.Strict", `{"a":"x"}`)); string(a.Data) != `"fine"` {
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
		{"Call.Nobody", `1`, 404, "No handler for Test.Strikt: did you mean Test.Strict? (Syscall.List names what there is; a handler for Test.Strikt has to be registered in the program that runs the kernel)"},
	} {
		if code, text := failure(t, k, command("1", c.name, c.data)); code != c.code || text != c.text {
			t.Errorf("%s: got %d %s", c.name, code, text)
		}
	}
	if code, _ := failure(t, k, command("1", "Call.Bad", `1`)); code != 422 {
		t.Errorf("got %d", code)
	}
}

// No data is null on the wire, so it is null here: fine for one, refused by another.
func TestNestedCallsMayHaveNoData(t *testing.T) {
	strict := Query(Definition{Type: "Test.Strict", Summary: "Strict."}, func(context.Context, struct{}) (string, error) { return "fine", nil })
	outer := raw("Test.Outer", func(ctx context.Context, m message.Message, emit Emit) {
		var other message.Type
		if err := json.Unmarshal(m.Data, &other); err != nil {
			Fail(ctx, m, emit, err)
			return
		}
		data, err := Call(ctx, other, nil)
		if err != nil {
			Fail(ctx, m, emit, err)
			return
		}
		emit(m.Reply(data))
	})
	k := newKernel(t, nil, echo("Test.Echo"), strict, outer)
	if a := answer(t, k, query("1", "Test.Outer", `"Test.Echo"`)); string(a.Data) != "null" {
		t.Errorf("got %s", a.Data)
	}
	const want = "Schema validation failed: data: expected an object, got null"
	if code, text := failure(t, k, query("1", "Test.Outer", `"Test.Strict"`)); code != 422 || text != want {
		t.Errorf("got %d %s", code, text)
	}
}

func TestQueriesMayNotCallCommands(t *testing.T) {
	asQuery := func(s Syscall) Syscall {
		s.Kind = message.KindQuery
		return s
	}
	ran := false
	k := newKernel(t, nil,
		asCommand(raw("Test.Change", func(_ context.Context, m message.Message, emit Emit) {
			ran = true
			emit(m.Reply(nil))
		})),
		echo("Test.Read"),
		asQuery(calling("Query.Change", "Test.Change")),
		asQuery(calling("Query.Read", "Test.Read")),
		asQuery(calling("Query.Deep", "Query.Change")),
		calling("Command.Change", "Test.Change"),
	)
	for _, m := range []message.Message{
		query("1", "Query.Change", `1`), query("1", "Query.Deep", `1`),
		command("1", "Query.Change", `1`), // its definition counts, not the word of its caller
	} {
		if code, text := failure(t, k, m); code != 403 || text != "Query.Change is a query and may not call the command Test.Change" {
			t.Errorf("%s: got %d %s", m.Type, code, text)
		}
	}
	if ran {
		t.Error("the command ran")
	}
	for _, m := range []message.Message{query("1", "Query.Read", `1`), command("1", "Command.Change", `1`)} {
		if a := answer(t, k, m); a.Kind != message.KindReply {
			t.Errorf("%s: got %s", m.Type, a.Data)
		}
	}
}

func TestNestedCallsEndAtADepth(t *testing.T) {
	depth := 0
	k := newKernel(t, nil, raw("Test.Dig", func(ctx context.Context, m message.Message, emit Emit) {
		depth++
		_, err := Call(ctx, "Test.Dig", m.Data)
		Fail(ctx, m, emit, err)
	}))
	code, text := failure(t, k, query("1", "Test.Dig", `1`))
	if code != 508 || text != "Calls nest deeper than 32: Test.Dig calls Test.Dig" {
		t.Errorf("got %d %s", code, text)
	}
	if depth != 33 {
		t.Errorf("it was called %d times", depth)
	}
}

func TestNestedCallsPassTheirEventsOn(t *testing.T) {
	inner := raw("Test.Inner", func(_ context.Context, m message.Message, emit Emit) {
		emit(m.Event("Job.Started", json.RawMessage(`1`)))
		emit(m.Reply(m.Data))
	})
	inner.Emits = []EventDefinition{{Type: "Job.Started"}}
	k := newKernel(t, nil, inner, calling("Test.Outer", "Test.Inner"))
	all := ask(k, command("root", "Test.Outer", `7`))
	if len(all) != 2 || all[0].Type != "Job.Started" || all[1].Kind != message.KindReply {
		t.Fatalf("got %s", texts(all))
	}
	// The event was caused by the nested call, which the root caused.
	if m := all[0].Metadata; m.Correlation != "root" || m.Causation == "root" || m.Causation == "" {
		t.Errorf("got %+v", m)
	}
}

func TestNestedCallsNeedACall(t *testing.T) {
	_, err := Call(context.Background(), "Test.Echo", nil)
	if e, ok := errors.AsType[*message.Error](err); !ok || e.Code != 500 {
		t.Errorf("got %v", err)
	}
}

func TestNestedCallsWorkWithContextsMadeFromTheCalls(t *testing.T) {
	k := newKernel(t, nil, lineage, raw("Test.Outer", func(ctx context.Context, m message.Message, emit Emit) {
		child, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		data, err := Call(child, "Test.Lineage", m.Data)
		if err != nil {
			Fail(ctx, m, emit, err)
			return
		}
		emit(m.Reply(data))
	}))
	var got [4]string
	if err := json.Unmarshal(answer(t, k, query("root", "Test.Outer", `1`)).Data, &got); err != nil {
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
			k := newKernel(t, nil, within(c.outer, calling("Test.Outer", "Test.Wait")), within(c.inner, cooperative("Test.Wait")))
			start := time.Now()
			code, _ := failure(t, k, command("1", "Test.Outer", `1`))
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
		k := newKernel(t, nil, within(time.Minute, calling("Test.Outer", "Test.Wait")), within(time.Second, stubborn("Test.Wait", release)))
		time.AfterFunc(30*time.Second, func() { close(release) })
		start := time.Now()
		code, _ := failure(t, k, command("1", "Test.Outer", `1`))
		if code != 504 || time.Since(start) != time.Second {
			t.Errorf("got %d after %v", code, time.Since(start))
		}
		<-release
	})
}
