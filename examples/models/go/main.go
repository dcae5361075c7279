// Command go serves Echoing.Generate: a program that is a language model of the kernel. It repeats
// what it hears.
//
//	kernos memory set models/echoing '{"dialect":"syscall","type":"Echoing.Generate"}'
//	kernos call Model.Generate --data '{"model":"echoing","messages":[{"type":"input","text":"hello"}]}'
package main

import (
	"context"
	"encoding/json"
	"os"
	"strings"
	"time"

	kernos "kernos/sdk/go"
)

// conversation is what the program is sent: as much of it as it needs.
type conversation struct {
	Messages    []spoken
	MessagesRef *struct{ Path string } // a long conversation is in a file
}

type spoken struct{ Type, Text string }

func generate(_ context.Context, data json.RawMessage, request *kernos.Request) (any, error) {
	var in conversation
	err := json.Unmarshal(data, &in)
	if ref := in.MessagesRef; err == nil && ref != nil {
		if data, err = os.ReadFile(ref.Path); err == nil {
			err = json.Unmarshal(data, &in.Messages)
		}
	}
	if err != nil {
		return nil, err
	}
	heard := ""
	for _, m := range in.Messages {
		if m.Type == "input" {
			heard = m.Text
		}
	}
	words := strings.SplitAfter("You said: "+heard, " ")
	for _, word := range words {
		if err := request.Event("Echoing.Said", map[string]any{"delta": map[string]any{"text": word}}); err != nil {
			return nil, err
		}
	}
	return map[string]any{
		"finish": "stop", "messages": []any{map[string]any{"type": "reply", "text": strings.Join(words, "")}},
		"usage": map[string]any{"input": len(in.Messages), "output": len(words)},
	}, nil
}

func main() {
	kernos.Serve(func(client *kernos.Client) error {
		return client.Handle("Echoing.Generate", kernos.Definition{Kind: "query", Summary: "Repeat the last input of a conversation.", Timeout: 10 * time.Minute}, generate)
	})
}
