package daemon

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"kernos/journal"
	"kernos/kernel"
	"kernos/kernel/kerneltest"
	"kernos/kernel/principal"
	"kernos/message"
	"kernos/store/storetest"
)

// unfailing are the syscalls that fail for no reason of their own.
var unfailing = []message.Type{"Echo", "Ping", "Kernel.Attention", "Kernel.Modules", "Kernel.Status", "Mcp.List", "Message.Stats", "Model.List", "Notify.List", "Notify.Targets", "Session.Approvals", "Syscall.Cancel", "Syscall.List", "Syscall.Search", "Syscall.Types", "Token.List", "Vector.Collections"}

// A description names the errors that a syscall gives by its own rules.
func TestDescriptionsNameErrors(t *testing.T) {
	k := keepIn(t, t.TempDir(), storetest.NewMemory(), Options{})
	for _, name := range k.kernel.Registry().All().Types() {
		got := k.as(principal.TheOwner(), "Syscall.Describe", fmt.Sprintf(`{"name":%q}`, name))
		var d struct {
			Errors []struct {
				Code int
				When string
			}
		}
		if err := json.Unmarshal(got.Data, &d); err != nil || got.Kind != message.KindReply {
			t.Fatalf("%s: %s", name, got.Data)
		}
		if (len(d.Errors) == 0) != slices.Contains(unfailing, name) {
			t.Errorf("%s names the errors %v", name, d.Errors)
		}
		last := 399
		for _, e := range d.Errors {
			if e.Code <= last || e.Code > 599 || e.When == "" {
				t.Errorf("%s: the error %d (%s) after %d", name, e.Code, e.When, last)
			}
			last = e.Code
		}
	}
	k.end(t)
}

// What a program registers is described as what is built in: all of its schemas, with the
// descriptions and the required members, and no member that a built-in syscall may not have.
func TestARegisteredSyscallIsDescribedInFull(t *testing.T) {
	k := keepIn(t, t.TempDir(), storetest.NewMemory(), Options{})
	program := kerneltest.Connect(k.kernel)
	const input = `{"type":"object","properties":{"city":{"type":"string","description":"Where."},"range":{"type":"object","description":"When.","properties":{"from":{"type":"string","description":"A day."},"to":{"type":"string","description":"Another day."}},"required":["from","to"]}},"required":["city","range"],"additionalProperties":false}`
	const output = `{"type":"object","properties":{"degrees":{"type":"number","description":"In Celsius."}},"required":["degrees"]}`
	program.In <- caused("register", "", "Syscall.Register", `{"name":"Weather.Report","kind":"query","description":"Report the weather.","inputSchema":`+input+`,"outputSchema":`+output+`}`)
	answer(t, program, "register")
	describe := func(name string) (members map[string]json.RawMessage) {
		got := k.as(principal.TheOwner(), "Syscall.Describe", fmt.Sprintf(`{"name":%q}`, name))
		if err := json.Unmarshal(got.Data, &members); err != nil {
			t.Fatalf("%s: %s", name, got.Data)
		}
		return members
	}
	d := describe("Weather.Report")
	if string(d["input"]) != input || !strings.Contains(string(d["output"]), output) || string(d["summary"]) != `"Report the weather."` {
		t.Errorf("input %s\noutput %s\nsummary %s", d["input"], d["output"], d["summary"])
	}
	built := describe("Http.Fetch")
	for name := range d {
		if built[name] == nil {
			t.Errorf("it has %s, which Http.Fetch doesn't have", name)
		}
	}
	if err := program.End(); err != nil {
		t.Error(err)
	}
	k.end(t)
}

// Syscall.Call has the rules of the syscall that it calls: its rights, its secrets, its
// idempotency keys.
func TestACallOfACallHasTheRulesOfWhatIsCalled(t *testing.T) {
	k := keepIn(t, t.TempDir(), storetest.NewMemory(), Options{})
	ci := kerneltest.Principal(t, "01ci", "ci", principal.Grant{Preset: principal.Agent})
	through := func(p *principal.Principal, kind message.Kind, id message.ID, key, what, data string) message.Message {
		m := message.Message{Kind: kind, Type: "Syscall.Call", Data: fmt.Appendf(nil, `{"type":%q,"data":%s}`, what, data), Metadata: message.Metadata{ID: id, IdempotencyKey: key}}
		got, _ := k.Call(kernel.ActFor(t.Context(), kernel.From(p, "ws")), m, nil)
		return got
	}
	sealed := through(ci, message.KindCommand, "seal", "", "Crypto.Seal", `{"plaintext":"hunter2secret"}`)
	if sealed.Kind != message.KindReply || !strings.Contains(string(sealed.Data), "pwenc:") {
		t.Errorf("sealing: %s", sealed.Data)
	}
	if got := through(ci, message.KindQuery, "open", "", "Crypto.Open", fmt.Sprintf(`{"value":%s}`, sealed.Data)); !strings.HasPrefix(string(got.Data), `{"code":403,`) {
		t.Errorf("a token opens a secret: %s", got.Data)
	}
	for i, want := range []string{"1", "1", "2"} {
		key := "once"
		if i == 2 {
			key = "other"
		}
		if got := through(ci, message.KindCommand, message.ID(fmt.Sprint("add", i)), key, "Memory.Increment", `{"key":"n"}`); string(got.Data) != `{"value":`+want+`}` || got.Metadata.Repeated != (i == 1) {
			t.Errorf("%d: %s (repeated: %v)", i, got.Data, got.Metadata.Repeated)
		}
	}
	entries, _, err := k.Journal().List(t.Context(), journal.Query{Limit: 1000})
	if err != nil || len(entries) == 0 {
		t.Fatal(err)
	}
	for _, e := range entries {
		if text := string(message.Append(nil, &e.Message)); strings.Contains(text, "hunter2") {
			t.Errorf("the journal has the secret: %s", text)
		}
		if e.Message.Metadata.ID == "seal" && e.Message.Type != "Crypto.Seal" {
			t.Errorf("it is recorded as %s", e.Message.Type)
		}
	}
	k.end(t)
}

// A workflow that is run again repeats a command of one idempotency key once, and what differs
// in headers and times only is the same.
func TestAReplayRunsAKeyOnceAndIgnoresTimes(t *testing.T) {
	var fetched, ran atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Date", fmt.Sprintf("Mon, 02 Jan 2006 15:04:%02d GMT", fetched.Add(1)))
		_, _ = w.Write([]byte("same"))
	}))
	defer server.Close()
	count := kernel.Module{Name: "test", Version: "1.0.0", Summary: "Test.", Syscalls: []kernel.Syscall{
		kernel.Command(kernel.Definition{Type: "Test.Run", Summary: "Count runs."}, func(context.Context, struct{}) (string, error) { ran.Add(1); return "done", nil }),
	}}
	k := keepIn(t, t.TempDir(), storetest.NewMemory(), Options{Modules: []kernel.Module{count}})
	send := func(id message.ID, key string, what message.Type, data string) message.Message {
		m := message.Message{Kind: message.KindCommand, Type: what, Data: json.RawMessage(data), Metadata: message.Metadata{ID: id, Correlation: "w", IdempotencyKey: key}}
		got, _ := k.Call(t.Context(), m, nil)
		return got
	}
	send("one", "k", "Test.Run", `{}`)
	if got := send("two", "k", "Test.Run", `{}`); !got.Metadata.Repeated {
		t.Errorf("the second one isn't a repetition: %s", got.Data)
	}
	if got := send("get", "", "Http.Fetch", fmt.Sprintf(`{"url":%q}`, server.URL)); got.Kind != message.KindReply {
		t.Fatalf("%s", got.Data)
	}
	r := k.replay(t, principal.TheOwner(), "w")
	if r.Commands != 2 || r.Same != 2 || len(r.Skipped) != 1 || !strings.Contains(r.Skipped[0].Why, "same idempotency key") {
		t.Errorf("the replay: %+v", r)
	}
	if ran.Load() != 2 || fetched.Load() != 2 {
		t.Errorf("the command ran %d times, the page was fetched %d times", ran.Load(), fetched.Load())
	}
	k.end(t)
}

// A 413 names the field that takes a reference in place of what is too long.
func TestWhatIsTooLongNamesItsReference(t *testing.T) {
	k := keepIn(t, t.TempDir(), storetest.NewMemory(), Options{})
	for what, want := range map[message.Type]string{
		"Memory.Set": "send valueRef with a pointer", "VFS.Write": "send contentRef with a pointer", "Echo": "",
	} {
		cause := ""
		e := k.kernel.TooLong(what, message.Current.TooLong)
		if e.Cause != nil {
			cause = e.Cause.Message
		}
		if e.Code != 413 || (cause == "") != (want == "") || !strings.Contains(cause, want) {
			t.Errorf("%s: %v, because %s", what, e, cause)
		}
	}
	k.end(t)
}
