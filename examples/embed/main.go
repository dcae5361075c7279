// Command embed is a program with a kernel inside: it adds a syscall of its own and
// calls it.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"strings"

	"kernos/kernel"
	"kernos/message"
)

type shoutInput struct {
	Text string `json:"text" jsonschema_description:"What to shout."`
}

type shoutOutput struct {
	Text string `json:"text" jsonschema_description:"The same, louder."`
}

var shout = kernel.Query(
	kernel.Definition{Type: "Text.Shout", Summary: "Say something louder."},
	func(_ context.Context, in shoutInput) (shoutOutput, error) {
		return shoutOutput{Text: strings.ToUpper(in.Text) + "!"}, nil
	},
)

func main() {
	registry, err := kernel.NewRegistry(kernel.Module{
		Name: "text", Version: "1.0.0", Summary: "Things to do with text.",
		Syscalls: []kernel.Syscall{shout},
	})
	if err != nil {
		log.Fatal(err)
	}
	k := kernel.New(registry, nil)
	request := message.Message{Kind: message.KindQuery, Type: "Text.Shout", Data: []byte(`{"text":"hello"}`)}
	k.Stamp(&request)
	k.Handle(context.Background(), request, func(m message.Message) {
		fmt.Fprintln(os.Stdout, m.Kind, string(m.Data))
	})
}
