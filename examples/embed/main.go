// Command embed is a program with all of Kernos inside: it opens a home, adds a syscall of its
// own, serves it on a unix socket and over HTTP, and calls it.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"strings"

	"kernos/daemon"
	"kernos/kernel"
	"kernos/message"
)

type shoutInput struct {
	Text string `json:"text" jsonschema_description:"What to shout."`
}

type shoutOutput struct {
	Text string `json:"text" jsonschema_description:"The same, louder."`
}

var text = kernel.Module{
	Name: "text", Version: "1.0.0", Summary: "Things to do with text.",
	Syscalls: []kernel.Syscall{kernel.Query(
		kernel.Definition{Type: "Text.Shout", Summary: "Say something louder."},
		func(_ context.Context, in shoutInput) (shoutOutput, error) {
			return shoutOutput{Text: strings.ToUpper(in.Text) + "!"}, nil
		},
	)},
}

func main() {
	home, err := os.MkdirTemp("", "embed")
	if err == nil {
		err = run(home)
	}
	if err = errors.Join(err, os.RemoveAll(home)); err != nil {
		log.Fatal(err)
	}
}

func run(home string) error {
	d, err := daemon.Open(&daemon.Options{
		Home:    home, // the store, the journal and the blobs are here
		Modules: []kernel.Module{text},
		Socket:  &daemon.Socket{},                    // for programs of this user
		Web:     &daemon.Web{Address: "127.0.0.1:0"}, // HTTP and WebSockets, with the token in home
	})
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- d.Serve(ctx) }()

	answer, err := d.Call(ctx, message.Message{Kind: message.KindQuery, Type: "Text.Shout", Data: []byte(`{"text":"hello"}`)}, nil)
	fmt.Println(answer.Kind, string(answer.Data))
	stop()
	return errors.Join(err, <-served, d.Close())
}
