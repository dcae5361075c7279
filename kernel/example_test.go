package kernel_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"kernos/kernel"
	"kernos/message"
)

// A function on Go types becomes a syscall; its schema comes from the types.
func ExampleQuery() {
	type input struct {
		Text string `json:"text" jsonschema_description:"What to say louder."`
	}
	shout := kernel.Query(
		kernel.Definition{Type: "Text.Shout", Summary: "Say it louder."},
		func(_ context.Context, in input) (string, error) {
			if in.Text == "" {
				return "", message.Errorf(400, "There is nothing to say")
			}
			return strings.ToUpper(in.Text), nil
		},
	)
	fmt.Println(shout.Kind)
	fmt.Println(string(shout.Input.JSON()))
	// Output:
	// query
	// {"type":"object","properties":{"text":{"type":"string","description":"What to say louder."}},"required":["text"],"additionalProperties":false}
}

// A kernel answers a message with events and then one outcome.
func ExampleKernel_Handle() {
	type input struct {
		Steps int `json:"steps"`
	}
	walk := kernel.DefineCommand[input, string](kernel.Definition{Type: "Dog.Walk", Summary: "Walk the dog."}).BindStream(
		func(_ context.Context, in input, s *kernel.Stream) (string, error) {
			for i := range in.Steps {
				s.Progress("walking", float64(i+1)/float64(in.Steps))
			}
			return "tired", nil
		},
	)
	registry, err := kernel.NewRegistry(kernel.Module{
		Name: "dog", Version: "1.0.0", Summary: "Everything about dogs.", Syscalls: []kernel.Syscall{walk},
	})
	if err != nil {
		panic(err)
	}
	k := kernel.New(registry, nil)
	request := message.Message{
		Kind: message.KindCommand, Type: "Dog.Walk", Data: json.RawMessage(`{"steps":2}`),
		Metadata: message.Metadata{ID: "walk-1", Timestamp: 1735000000000},
	}
	k.Handle(context.Background(), request, func(m message.Message) {
		fmt.Println(m.Kind, m.Type, string(m.Data), "caused by", m.Metadata.Causation)
	})
	// Output:
	// event Syscall.Progressed {"message":"walking","percentage":0.5} caused by walk-1
	// event Syscall.Progressed {"message":"walking","percentage":1} caused by walk-1
	// reply Dog.Walk "tired" caused by walk-1
}
