package main

import (
	"context"
	"testing"

	"kernos/kernel"
	"kernos/message"
)

func TestShoutIsAnswered(t *testing.T) {
	registry, err := kernel.NewRegistry(kernel.Module{
		Name: "text", Version: "1.0.0", Summary: "Things to do with text.", Syscalls: []kernel.Syscall{shout},
	})
	if err != nil {
		t.Fatal(err)
	}
	k := kernel.New(registry, nil)
	request := message.Message{Kind: message.KindQuery, Type: "Text.Shout", Data: []byte(`{"text":"hello"}`)}
	k.Stamp(&request)
	var got string
	k.Handle(context.Background(), request, func(m message.Message) { got = string(m.Data) })
	if want := `{"text":"HELLO!"}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
