package kernel

import (
	"context"
	"testing"

	"kernos/message"
)

type greeting struct {
	Name string `json:"name"`
}

var greet = DefineQuery[greeting, greeting](Definition{Type: "Greet.Say", Summary: "Says hello."})

func greetings() Module {
	return Module{Name: "greet", Version: "1.0.0", Summary: "Greetings.", Syscalls: Unbound(greet.Definition)}
}

func TestAModuleIsDescribedBeforeItsHandlersAreBound(t *testing.T) {
	described, err := Describe(greetings())
	if err != nil {
		t.Fatal(err)
	}
	bound, err := NewRegistry(greetings().Bind(greet.Bind(func(_ context.Context, g greeting) (greeting, error) { return g, nil })))
	if err != nil {
		t.Fatal(err)
	}
	if described.Hash() != bound.Hash() {
		t.Error("the hash of a registry depends on its handlers")
	}
	ask := message.Message{Kind: message.KindQuery, Type: "Greet.Say", Data: []byte(`{"name":"x"}`), Metadata: message.Metadata{ID: "1", Timestamp: 1}}
	var got []message.Message
	emit := func(m message.Message) { got = append(got, m) }
	New(described, nil).Handle(t.Context(), ask, emit)
	New(bound, nil).Handle(t.Context(), ask, emit)
	if got[0].Kind != message.KindError || got[1].Kind != message.KindReply {
		t.Errorf("answers %v", got)
	}
}

func TestAModuleIsNotBoundByHalves(t *testing.T) {
	for what, syscalls := range map[string][]Syscall{
		"without a handler":  nil,
		"with a foreign one": {Definition{Type: "Other.Say"}.BindHandler(func(context.Context, message.Message, Emit) {})},
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
	if _, err := NewRegistry(greetings()); err == nil {
		t.Error("a registry took a syscall without a handler")
	}
}
