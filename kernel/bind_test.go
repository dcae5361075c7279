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

func TestAModuleIsDescribedWithoutBeingServed(t *testing.T) {
	called := 0
	m := kerneltest.Module("greet", kernel.Query(kernel.Definition{Type: "Greet.Say", Summary: "Says hello."},
		func(_ context.Context, g greeting) (greeting, error) { called++; return g, nil }))
	described, err := kernel.NewRegistry(m.Described())
	if err != nil {
		t.Fatal(err)
	}
	served, err := kernel.NewRegistry(m)
	if err != nil {
		t.Fatal(err)
	}
	if described.All().Hash() != served.All().Hash() {
		t.Error("the hash of a registry depends on its handlers")
	}
	ask := message.Message{Kind: message.KindQuery, Type: "Greet.Say", Data: []byte(`{"name":"x"}`), Metadata: message.Metadata{ID: "1", Timestamp: 1}}
	var got []message.Message
	emit := func(m message.Message) { got = append(got, m) }
	kernel.New(described, nil).Handle(t.Context(), ask, emit)
	kernel.New(served, nil).Handle(t.Context(), ask, emit)
	if got[0].Kind != message.KindError || got[1].Kind != message.KindReply || called != 1 {
		t.Errorf("answers %v, after %d calls", got, called)
	}
}

func TestARegistryWantsHandlers(t *testing.T) {
	if _, err := kernel.NewRegistry(kerneltest.Module("greet", kernel.DefineQuery[greeting, greeting](kernel.Definition{Type: "Greet.Say", Summary: "Says hello."}).BindHandler(nil))); err == nil {
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
