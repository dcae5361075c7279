package rpc

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"kernos/kernel"
	"kernos/kernel/kerneltest"
	"kernos/kernel/principal"
	"kernos/message"
)

// raw makes a syscall from a handler.
func raw(t message.Type, kind message.Kind, h kernel.Handler) kernel.Syscall {
	s := kerneltest.Raw(t, h)
	s.Kind = kind
	return s
}

// A frame that is no call is answered as JSON-RPC says, and the connection goes on.
func TestBadFramesGetTheirCodes(t *testing.T) {
	c := dial(t, newService(t, nil))
	for _, one := range []struct {
		frame, id string
		code      int
	}{
		{`{"jsonrpc":"2.0"`, "null", codeParse},
		{`{"a":1,"a":2}`, "null", codeParse},
		{"\xff", "null", codeParse},
		{``, "null", codeParse},
		{`"text"`, "null", codeInvalidRequest},
		{`[]`, "null", codeInvalidRequest},
		{`{}`, "null", codeInvalidRequest},
		{`{"jsonrpc":"1.0","id":1,"method":"note_get_all"}`, "1", codeInvalidRequest},
		{`{"jsonrpc":"2.0","id":1,"method":7}`, "1", codeInvalidRequest},
		{`{"jsonrpc":"2.0","id":[1],"method":"note_get_all"}`, "null", codeInvalidRequest},
		{`{"jsonrpc":"2.0","id":true,"method":"note_get_all"}`, "null", codeInvalidRequest},
		{`{"jsonrpc":"2.0","id":"` + strings.Repeat("x", 300) + `","method":"note_get_all"}`, "null", codeInvalidRequest},
		{`{"jsonrpc":"2.0","id":1,"result":"note_get_all"}`, "1", codeInvalidRequest},
		{`{"jsonrpc":"2.0","id":"a","method":"note_get_all","params":null}`, `"a"`, codeInvalidParams},
		{`{"jsonrpc":"2.0","id":-1.5,"method":"rpc.nothing"}`, "-1.5", codeNoMethod},
		{`{"jsonrpc":"2.0","id":1,"method":"service_resume","params":["x"]}`, "1", codeInvalidParams},
		{`[` + strings.Repeat("1,", maxBatch) + `1]`, "null", codeInvalidRequest},
	} {
		c.send("%s", one.frame)
		r := c.read()
		if r.Error == nil || r.Error.Code != one.code || string(r.ID) != one.id && !(one.id == "null" && r.ID == nil) {
			t.Errorf("%.80s: got %+v", one.frame, r)
		}
	}
	if got := kinds(c.items(c.call("note_get_all", "[]"))); got != "data done" {
		t.Errorf("got %s", got)
	}
}

// A batch is answered as one, without those who want no answer; then its streams come.
// Invariants: R1.
func TestBatchIsAcknowledgedAtOnce(t *testing.T) {
	c := dial(t, newService(t, nil))
	c.send(`[{"jsonrpc":"2.0","id":1,"method":"note_get_all"},{"jsonrpc":"2.0","method":"note_get_all"},7,{"jsonrpc":"2.0","id":2,"method":"service_hash"},{"jsonrpc":"2.0","id":3,"method":"note_get_al"}]`)
	var all []response
	if err := json.Unmarshal([]byte(c.next()), &all); err != nil || len(all) != 4 {
		t.Fatalf("%v: %+v", err, all)
	}
	got := make(map[string][]string)
	for range 2 + 2 + 3 {
		r := c.read()
		got[r.Params.Subscription] = append(got[r.Params.Subscription], r.Params.Result.Type)
	}
	for i, want := range map[int]string{0: "data done", 2: "data done", 3: "guidance error done"} {
		var id string
		_ = json.Unmarshal(all[i].Result, &id)
		if line := strings.Join(got[id], " "); line != want {
			t.Errorf("call %d: got %q, want %q", i, line, want)
		}
	}
	if all[1].Error == nil || all[1].Error.Code != codeInvalidRequest {
		t.Errorf("got %+v", all[1])
	}
	c.send(`[{"jsonrpc":"2.0","method":"note_get_all"},{"jsonrpc":"2.0","method":"nothing_there"}]`)
	c.send(`{"jsonrpc":"2.0","id":9,"method":"service_unsubscribe","params":["x-1"]}`)
	if r := c.read(); string(r.ID) != "9" {
		t.Errorf("notifications were answered: %+v", r)
	}
}

// Streams keep to the sequences whatever the handler does.
// Invariants: R3.
//
// Clauses: RPC-2.2.4-1
func TestEverySequenceEndsWithDone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hang := raw("Test.Hang", message.KindQuery, func(ctx context.Context, _ message.Message, _ kernel.Emit) { time.Sleep(time.Hour) })
		hang.Timeout = time.Second
		late := hang
		late.Type, late.Runs = "Test.HangAside", kernel.Slow
		s := newService(t, nil, hang, late,
			raw("Test.Panic", message.KindQuery, func(context.Context, message.Message, kernel.Emit) { panic("no") }),
			raw("Test.Silent", message.KindQuery, func(context.Context, message.Message, kernel.Emit) {}),
			raw("Test.Twice", message.KindQuery, func(_ context.Context, m message.Message, emit kernel.Emit) {
				emit(m.Reply([]byte("1")))
				emit(m.Reply([]byte("2")))
			}),
			raw("Test.Progress", message.KindQuery, func(_ context.Context, m message.Message, emit kernel.Emit) {
				kernel.NewStream(&m, emit).Progress("half", 0.5)
				emit(m.Event(kernel.Progressed, []byte(`{"message":7,"percentage":3}`)))
				emit(m.Event(kernel.Progressed, []byte(`"odd"`)))
				emit(m.Reply(nil))
			}),
			raw("Test.Nested", message.KindCommand, func(ctx context.Context, m message.Message, emit kernel.Emit) {
				_, err := kernel.Invoke(ctx, "Test.Progress", nil)
				if err != nil {
					kernel.Fail(ctx, m, emit, err)
					return
				}
				emit(m.Reply(nil))
			}),
		)
		c := dial(t, s)
		for method, want := range map[string]string{
			"test_panic":      "error 500 done",
			"test_silent":     "error 500 done",
			"test_hang":       "error 504 done",
			"test_hang_aside": "error 504 done",
			"test_twice":      "data done",
			"test_progress":   "progress progress progress data done",
			"test_nested":     "progress progress progress data done",
			"memo_get_all":    "data data done",
			"note_set":        "guidance error 422 done",
			"nothing_there":   "guidance error 404 done",
			"nothing":         "guidance error 404 done",
		} {
			id := c.call(method, "[]")
			items := c.items(id)
			var got []string
			for _, i := range items {
				if got = append(got, i.Type); i.Type == "error" {
					got = append(got, fmt.Sprint(i.Code))
				}
				if i.Hash != s.view(principal.TheOwner()).Hash() || len(i.Provenance) == 0 {
					t.Errorf("%s: got %+v", method, i)
				}
				if method == "test_nested" && strings.Join(i.Provenance, " ") != map[string]string{"progress": "test test"}[i.Type] && i.Type == "progress" {
					t.Errorf("%s comes from %v", i.Type, i.Provenance)
				}
			}
			if line := strings.Join(got, " "); line != want {
				t.Errorf("%s: got %s, want %s", method, line, want)
			}
			if method == "test_progress" {
				if items[0].Message != "half" || *items[0].Percentage != 0.5 || items[1].Message != "" || items[1].Percentage != nil {
					t.Errorf("got %+v", items[:3])
				}
			}
			if method == "memo_get_all" && (items[0].ContentType != "syscall.deprecated" || items[1].ContentType != "memo.get_all") {
				t.Errorf("an alias is answered as %s and %s", items[0].ContentType, items[1].ContentType)
			}
		}
		c.end(ErrStopped)
		c.wait()
		time.Sleep(2 * time.Hour) // for those that hang
	})
}

// There are never more streams than there may be, and one that ends makes room.
func TestSubscriptionsAreLimited(t *testing.T) {
	g := newGate()
	c := dial(t, newService(t, &Options{Subscriptions: 2}, g.syscall("Test.Wait", message.KindQuery)))
	one := c.call("test_wait", "[]")
	c.call("test_wait", "[]")
	c.send(`{"jsonrpc":"2.0","id":1,"method":"note_get_all"}`)
	if r := c.read(); r.Error == nil || r.Error.Code != codeTooMany || string(r.Error.Data) != `{"name":"too_many_subscriptions"}` {
		t.Fatalf("got %+v", r)
	}
	c.send(`{"jsonrpc":"2.0","id":2,"method":"service_unsubscribe","params":[%q]}`, one)
	if got := kinds(c.items(one)); got != "error done" {
		t.Errorf("got %s", got)
	}
	if r := c.read(); string(r.Result) != "true" {
		t.Errorf("got %+v", r)
	}
	<-g.cancelled
	if got := kinds(c.items(c.call("note_get_all", "[]"))); got != "data done" {
		t.Errorf("got %s", got)
	}
}

// What is larger than an item may be goes to a blob, or fails; the stream ends in order.
func TestLargeDataDoesNotBecomeAnItem(t *testing.T) {
	large := []byte(`"` + strings.Repeat("x", maxItem) + `"`)
	c := dial(t, newService(t, nil, raw("Test.Large", message.KindQuery, func(_ context.Context, m message.Message, emit kernel.Emit) {
		emit(m.Reply(large))
	})))
	if got := kinds(c.items(c.call("test_large", "[]"))); got != "error done" {
		t.Errorf("got %s", got)
	}
}

// The service's own methods are in no listing, and a slip in their names is found all the
// same.
func TestSlipInTheNameOfAnOwnMethod(t *testing.T) {
	s := newService(t, nil)
	for method, want := range map[string]string{"schem": `"suggested_method":"schema"`, "frobnicate": `"action":"call_service_schema"`} {
		o, err := s.Call(t.Context(), Call{Method: "service_" + method}, nil)
		if err != nil || o.ErrorKind() != "method_not_found" || !strings.Contains(string(o.Guidance), want) {
			t.Errorf("%s: %s, %v", method, o.Guidance, err)
		}
	}
}

// A closed service takes no connections.
func TestClosedServiceTakesNoConnections(t *testing.T) {
	s := newService(t, nil)
	s.Close()
	if err := s.Serve(context.Background(), newPipe()); err != ErrClosed {
		t.Errorf("got %v", err)
	}
}

// What is hidden is in no listing, and can be called.
func TestHiddenSyscallsAreCalledAndNotListed(t *testing.T) {
	plain := newService(t, nil)
	hidden := raw("Secret.Door", message.KindQuery, func(_ context.Context, m message.Message, emit kernel.Emit) { emit(m.Reply([]byte(`"open"`))) })
	hidden.Visibility = kernel.Hidden
	beside := raw("Note.Burn", message.KindQuery, hidden.Handler)
	beside.Visibility = kernel.Hidden
	s := newService(t, nil, hidden, beside)
	if s.view(principal.TheOwner()).Hash() != plain.view(principal.TheOwner()).Hash() {
		t.Error("it changes the hash")
	}
	c := dial(t, s)
	for _, method := range []string{"secret_door", "note_burn"} {
		if items := c.items(c.call(method, "[]")); kinds(items) != "data done" || string(items[0].Data) != `"open"` {
			t.Errorf("%s: %+v", method, items)
		}
	}
	note, _ := s.moduleSchema(whole(s), "note")
	for _, text := range []string{string(s.schema(whole(s))), string(note), string(discovered(s)), string(c.items(c.call("note_bur", "[]"))[0].Schema), fmt.Sprint(c.items(c.call("secret_dor", "[]"))[0])} {
		if strings.Contains(text, "door") || strings.Contains(text, "burn") {
			t.Errorf("it is in %s", text)
		}
	}
	if got := kinds(c.items(c.call("service_module_schema", `["secret"]`))); got != "guidance error done" {
		t.Errorf("got %s", got)
	}
}
