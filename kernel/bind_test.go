package kernel_test

import (
	"context"
	"testing"

	"kernos/kernel"
	"kernos/kernel/kerneltest"
	"kernos/message"
	"kernos/schema"
)

type greeting struct {
	Name string `json:"name"`
}

var greet = kernel.DefineQuery[greeting, greeting](kernel.Definition{Type: "Greet.Say", Summary: "Says hello."})

func greetings() kernel.Module {
	return kernel.Module{Name: "greet", Version: "1.0.0", Summary: "Greetings.", Syscalls: kernel.Unbound(greet.Definition)}
}

func TestAModuleIsDescribedBeforeItsHandlersAreBound(t *testing.T) {
	described, err := kernel.Describe(greetings())
	if err != nil {
		t.Fatal(err)
	}
	bound, err := kernel.NewRegistry(greetings().Bind(greet.Bind(func(_ context.Context, g greeting) (greeting, error) { return g, nil })))
	if err != nil {
		t.Fatal(err)
	}
	if described.All().Hash() != bound.All().Hash() {
		t.Error("the hash of a registry depends on its handlers")
	}
	ask := message.Message{Kind: message.KindQuery, Type: "Greet.Say", Data: []byte(`{"name":"x"}`), Metadata: message.Metadata{ID: "1", Timestamp: 1}}
	var got []message.Message
	emit := func(m message.Message) { got = append(got, m) }
	kernel.New(described, nil).Handle(t.Context(), ask, emit)
	kernel.New(bound, nil).Handle(t.Context(), ask, emit)
	if got[0].Kind != message.KindError || got[1].Kind != message.KindReply {
		t.Errorf("answers %v", got)
	}
}

func TestAModuleIsNotBoundByHalves(t *testing.T) {
	for what, syscalls := range map[string][]kernel.Syscall{
		"without a handler":  nil,
		"with a foreign one": {kernel.Definition{Type: "Other.Say"}.BindHandler(func(context.Context, message.Message, kernel.Emit) {})},
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Error("bound", what)
				}
			}()
			greetings().Bind(syscalls...)
		}()
	}
	if _, err := kernel.NewRegistry(greetings()); err == nil {
		t.Error("a registry took a syscall without a handler")
	}
}

func TestRawTextIsRepliedAsItIs(t *testing.T) {
	const text = `{ "b":1.0, "a":"\u0041" }`
	raw := kernel.Query(kernel.Definition{Type: "Raw.Get", Summary: "Replies with raw text.", Output: schema.Any},
		func(ctx context.Context, _ struct{}) (kernel.Raw, error) {
			if r := kernel.RequestOf(ctx); r == nil || r.Metadata.ID != "1" {
				t.Errorf("the request is %v", r)
			}
			return kernel.Raw(text), nil
		})
	if got := kerneltest.Answer(t, kerneltest.New(t, nil, raw), kerneltest.Query("1", "Raw.Get", `{}`)); string(got.Data) != text {
		t.Errorf("the answer is %s", got.Data)
	}
	if kernel.RequestOf(t.Context()) != nil {
		t.Error("a context without a call has a request")
	}
}
