package kernel_test

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"

	"kernos/kernel"
	"kernos/kernel/kerneltest"
	"kernos/kernel/principal"
	"kernos/message"
	"kernos/schema"
	"kernos/store"
	"kernos/store/storetest"
)

// senders keeps whom records name.
type senders struct {
	mu  sync.Mutex
	all []string
}

func (s *senders) Record(r kernel.Record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	text := fmt.Sprintf("%s %s %s/%s", r.Message.Kind, r.Message.Type, r.Sender.Principal().Name(), r.Sender.Wire())
	if r.Claim {
		text += " claim"
	}
	s.all = append(s.all, text)
}

func (s *senders) RecordWith(_ *store.Batch, rs []kernel.Record, apply func() error) error {
	for _, r := range rs[1:] {
		s.Record(r)
	}
	return apply()
}

func (s *senders) taken() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	text := strings.Join(s.all, "\n")
	s.all = nil
	return text
}

// as answers a message that a token sends.
func as(t *testing.T, k *kernel.Kernel, p *principal.Principal, m message.Message) message.Message {
	return kerneltest.Outcome(kernel.ActFor(t.Context(), kernel.From(p, "http")), k, m)
}

func newToken(t *testing.T, g principal.Grant) *principal.Principal {
	t.Helper()
	return kerneltest.Principal(t, "01", "ci", g)
}

// Rights come before the data is looked at, and records name the sender, whatever the outcome of
// the request.
func TestRightsComeFirst(t *testing.T) {
	s, records := storetest.NewMemory(), new(senders)
	outer := kerneltest.AsCommand(kerneltest.Raw("Outer.Call", func(ctx context.Context, m message.Message, emit kernel.Emit) {
		data, err := kernel.Invoke(ctx, "Secret.Get", nil)
		if err != nil {
			kernel.Fail(ctx, m, emit, err)
			return
		}
		emit(m.Reply(data))
	}))
	strict := kerneltest.Echo("Secret.Get")
	strict.Input = schema.Input[struct {
		Name string `json:"name"`
	}]()
	k := kerneltest.New(t, &kernel.Options{Store: s, Recorder: records}, counter(s), outer, strict)
	p := newToken(t, principal.Grant{Preset: principal.Agent, Deny: []string{"Secret.*"}})

	if got := as(t, k, p, kerneltest.Command("a", "Counter.Add", `{"n":1}`)); got.Kind != message.KindReply {
		t.Errorf("%s", got.Data)
	}
	if got, want := records.taken(), "command Counter.Add ci/http\nreply Counter.Add ci/http"; got != want {
		t.Errorf("records:\n%s\nwant\n%s", got, want)
	}
	code, text := kerneltest.ReadError(t, as(t, k, p, kerneltest.Query("b", "Secret.Get", `{"nonsense":1}`)))
	if code != 403 || !strings.Contains(text, `The token "ci" may not call Secret.Get: it is denied Secret.*`) {
		t.Errorf("%d %s", code, text)
	}
	if got, want := records.taken(), "query Secret.Get ci/http\nerror Secret.Get ci/http"; got != want {
		t.Errorf("records:\n%s\nwant\n%s", got, want)
	}
	if code, text := kerneltest.ReadError(t, as(t, k, p, kerneltest.Command("c", "Outer.Call", `1`))); code != 403 {
		t.Errorf("what a call causes has more rights than the call: %d %s", code, text)
	}
	if code, text := kerneltest.ReadError(t, as(t, k, p, kerneltest.Query("d", "Secret.Gett", `1`))); code != 404 || strings.Contains(text, "Secret.Get?") {
		t.Errorf("a hint names what the sender may not call: %d %s", code, text)
	}
	p.End(principal.ErrRevoked)
	if code, text := kerneltest.ReadError(t, as(t, k, p, kerneltest.Command("e", "Counter.Add", `{"n":1}`))); code != 403 || !strings.Contains(text, "revoked") {
		t.Errorf("%d %s", code, text)
	}
}

func TestKeysBelongToPrincipals(t *testing.T) {
	s := storetest.NewMemory()
	k := kerneltest.New(t, &kernel.Options{Store: s}, counter(s))
	p := newToken(t, principal.Grant{Preset: principal.Agent})
	for i, m := range []struct {
		by   *principal.Principal
		want string
	}{{nil, "1"}, {p, "2"}, {nil, "1"}, {p, "2"}} {
		if got := as(t, k, m.by, keyed(message.ID(fmt.Sprint(i)), "Counter.Add", `{"n":1}`, "k1")); string(got.Data) != m.want {
			t.Errorf("%d: %s, want %s", i, got.Data, m.want)
		}
	}
	for _, key := range []string{"session/1/2", "job/7"} {
		if code, text := kerneltest.ReadError(t, as(t, k, p, keyed("x", "Counter.Add", `{"n":1}`, key))); code != 403 {
			t.Errorf("%s: %d %s", key, code, text)
		}
	}
}

func TestATokenThatSendsTooMuch(t *testing.T) {
	k := kerneltest.New(t, nil, kerneltest.Echo("Test.Echo"))
	p := newToken(t, principal.Grant{Preset: principal.Agent, Rate: 0.001})
	if got := as(t, k, p, kerneltest.Query("a", "Test.Echo", `1`)); got.Kind != message.KindReply {
		t.Errorf("%s", got.Data)
	}
	if code, text := kerneltest.ReadError(t, as(t, k, p, kerneltest.Query("b", "Test.Echo", `1`))); code != 429 {
		t.Errorf("%d %s", code, text)
	}
}

// What a connection says in reply to nothing is a claim.
func TestClaims(t *testing.T) {
	records := new(senders)
	k := kerneltest.New(t, &kernel.Options{Recorder: records}, kerneltest.Echo("Test.Echo"))
	p := newToken(t, principal.Grant{Preset: principal.Agent})
	m := kerneltest.Query("a", "Test.Echo", `1`)
	reply := m.Reply([]byte("2"))
	k.Stamp(&reply)
	as(t, k, p, reply)
	if got, want := records.taken(), "reply Test.Echo ci/http claim"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// What runs for a token ends with it, commands too, and what they call.
func TestCallsEndWithTheirPrincipal(t *testing.T) {
	begun := make(chan struct{}, 1)
	waits := kerneltest.AsCommand(kerneltest.Raw("Test.Wait", func(ctx context.Context, m message.Message, emit kernel.Emit) {
		begun <- struct{}{}
		<-ctx.Done()
		kernel.Fail(ctx, m, emit, ctx.Err())
	}))
	looks := kerneltest.AsCommand(kerneltest.Raw("Test.Look", func(ctx context.Context, m message.Message, emit kernel.Emit) {
		begun <- struct{}{}
		for ctx.Err() == nil {
			runtime.Gosched()
		}
		kernel.Fail(ctx, m, emit, ctx.Err())
	}))
	calls := kerneltest.AsCommand(kerneltest.Raw("Test.Call", func(ctx context.Context, m message.Message, emit kernel.Emit) {
		_, err := kernel.Invoke(context.WithoutCancel(ctx), "Test.Wait", m.Data)
		kernel.Fail(ctx, m, emit, err)
	}))
	k := kerneltest.New(t, nil, waits, looks, calls)
	for _, what := range []message.Type{"Test.Wait", "Test.Look", "Test.Call"} {
		p := newToken(t, principal.Grant{Preset: principal.Agent})
		answer := make(chan message.Message)
		go func() { answer <- as(t, k, p, kerneltest.Command("1", what, "{}")) }()
		<-begun
		p.End(principal.ErrRevoked)
		if code, text := kerneltest.ReadError(t, <-answer); code != 499 {
			t.Errorf("%s: %d %s", what, code, text)
		}
	}
}
