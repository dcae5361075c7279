package kernel_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"

	"kernos/kernel"
	"kernos/kernel/kerneltest"
	"kernos/message"
	"kernos/schema"
)

func TestHandleRefusesWhatIsNoMessage(t *testing.T) {
	ran := false
	k := kerneltest.New(t, nil, kerneltest.Raw("Test.Do", func(_ context.Context, m message.Message, emit kernel.Emit) {
		ran = true
		emit(m.Reply(nil))
	}))
	for name, change := range map[string]func(*message.Message){
		"no kind":               func(m *message.Message) { m.Kind = "" },
		"a kind of its own":     func(m *message.Message) { m.Kind = "order" },
		"no id":                 func(m *message.Message) { m.Metadata.ID = "" },
		"an invalid type":       func(m *message.Message) { m.Type = "test.do" },
		"data that is not JSON": func(m *message.Message) { m.Data = json.RawMessage(`{"a"`) },
		"data that ends the message": func(m *message.Message) {
			m.Data = json.RawMessage(`1},"metadata":{}}{`)
		},
		"an id with a control character": func(m *message.Message) { m.Metadata.ID = "a\x00b" },
		"a time before 1970":             func(m *message.Message) { m.Metadata.Timestamp = -1 },
	} {
		m := kerneltest.Query("1", "Test.Do", `1`)
		change(&m)
		all := kerneltest.Ask(k, m)
		if len(all) != 1 {
			t.Errorf("%s: got %s", name, kerneltest.Texts(all))
			continue
		}
		if code, text := kerneltest.ReadError(t, all[0]); code != 422 {
			t.Errorf("%s: got %d %s", name, code, text)
		}
	}
	if ran {
		t.Error("the handler ran")
	}
}

func TestHandleChecksDataAgainstTheInput(t *testing.T) {
	type in struct {
		Key string `json:"key"`
	}
	k := kerneltest.New(t, nil, kernel.Query(kernel.Definition{Type: "Memory.Get", Summary: "Get."}, func(context.Context, in) (string, error) { return "", nil }))
	a := kerneltest.Answer(t, k, kerneltest.Query("1", "Memory.Get", `{"kei":1}`))
	const want = "Schema validation failed: missing required field: key; unknown field: kei (did you mean key?)"
	if code, text := kerneltest.ReadError(t, a); code != 422 || text != want {
		t.Errorf("got %d %s", code, text)
	}
	if a.Err == nil || a.Err.Field != "key" || a.Err.Expected == "" {
		t.Errorf("other dialects get %+v", a.Err)
	} else if _, ok := a.Err.Reason.(*schema.Invalid); !ok {
		t.Errorf("the reason is %v", a.Err.Reason)
	}
}

func TestHandleRefusesACommandThatCallsItselfAQuery(t *testing.T) {
	k := kerneltest.New(t, nil, kerneltest.AsCommand(kerneltest.Echo("Test.Change")), kerneltest.Echo("Test.Read"))
	if code, text := kerneltest.Failure(t, k, kerneltest.Query("1", "Test.Change", `1`)); code != 422 || !strings.Contains(text, "kind command") {
		t.Errorf("got %d %s", code, text)
	}
	// The specification itself sends a query as a command.
	if a := kerneltest.Answer(t, k, kerneltest.Command("1", "Test.Read", `1`)); a.Kind != message.KindReply {
		t.Errorf("got %s", a.Data)
	}
}

func TestHandleGuidesCallersOfUnknownTypes(t *testing.T) {
	k := kerneltest.New(t, nil, kerneltest.Echo("Memory.Get"), kerneltest.Echo("Memory.Set"))
	for name, want := range map[message.Type]string{
		"Memory.Gt":     "No handler for Memory.Gt: did you mean Memory.Get? (Syscall.List names the syscalls; a handler for Memory.Gt has to be registered in the program that runs the kernel)",
		"Stripe.Charge": "No handler for Stripe.Charge (Syscall.List names the syscalls; a handler for Stripe.Charge has to be registered in the program that runs the kernel)",
	} {
		if code, text := kerneltest.Failure(t, k, kerneltest.Command("1", name, `1`)); code != 404 || text != want {
			t.Errorf("got %d %s", code, text)
		}
	}
	k = kerneltest.New(t, nil, kerneltest.Echo("Syscall.Register"))
	if _, text := kerneltest.Failure(t, k, kerneltest.Command("1", "Stripe.Charge", `1`)); !strings.HasSuffix(text, "a handler for Stripe.Charge can be added with Syscall.Register)") {
		t.Errorf("got %s", text)
	}
}

func TestHandleAnswersOnlyWhatAsks(t *testing.T) {
	k := kerneltest.New(t, nil, kerneltest.Echo("Test.Echo"))
	for _, kind := range []message.Kind{message.KindEvent, message.KindReply, message.KindError} {
		m := kerneltest.Query("1", "Test.Echo", `{"code":404,"message":"x"}`)
		m.Kind, m.Metadata.Causation = kind, "0"
		if all := kerneltest.Ask(k, m); len(all) != 0 {
			t.Errorf("%s: got %s", kind, kerneltest.Texts(all))
		}
	}
}

// The caller may reuse its data as soon as Handle returns, also if the handler stays.
func TestHandleGivesTheHandlerDataOfItsOwn(t *testing.T) {
	seen := make(chan json.RawMessage, 1)
	k := kerneltest.New(t, nil, kerneltest.Raw("Test.Keep", func(_ context.Context, m message.Message, emit kernel.Emit) {
		seen <- m.Data
		emit(m.Reply(nil))
	}))
	m := kerneltest.Query("1", "Test.Keep", `"mine"`)
	kerneltest.Answer(t, k, m)
	copy(m.Data, `"your"`)
	if got := <-seen; string(got) != `"mine"` {
		t.Errorf("got %s", got)
	}
}

func TestHandleIsSafeForConcurrentUse(t *testing.T) {
	k := kerneltest.New(t, nil, kerneltest.Echo("Test.Echo"), calling("Test.Outer", "Test.Echo"))
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for j := range 100 {
				id := message.ID(fmt.Sprintf("%d-%d", i, j))
				name := []message.Type{"Test.Echo", "Test.Outer", "Test.Absent"}[j%3]
				all := kerneltest.Ask(k, kerneltest.Command(id, name, `"`+string(id)+`"`))
				if len(all) != 1 || all[0].Metadata.Causation != id {
					t.Errorf("got %s", kerneltest.Texts(all))
				} else if name != "Test.Absent" && string(all[0].Data) != `"`+string(id)+`"` {
					t.Errorf("%s got %s", id, all[0].Data)
				}
			}
		})
	}
	wg.Wait()
}
