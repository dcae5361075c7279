// Command go serves Echoing.Generate: a program that is a language model of the kernel. It repeats
// what it hears.
//
//	kernos memory set models/echoing '{"dialect":"syscall","type":"Echoing.Generate"}'
//	kernos call Model.Generate --data '{"model":"echoing","messages":[{"type":"input","text":"hello"}]}'
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"log"
	"net"
	"os"
	"strings"
	"time"
)

const name = "Echoing.Generate"

type message struct {
	Kind     string         `json:"kind"`
	Type     string         `json:"type"`
	Data     any            `json:"data"`
	Metadata map[string]any `json:"metadata"`
}

// request is what the program is sent: as much of it as it needs.
type request struct {
	Kind, Type string
	Data       struct {
		Messages    []spoken
		MessagesRef *struct{ Path string } // a long conversation is in a file
	}
	Metadata struct{ ID string }
}

type spoken struct{ Type, Text string }

var (
	conn net.Conn
	sent int
)

func send(kind, typ, cause string, data any) {
	sent++
	m := message{kind, typ, data, map[string]any{"id": fmt.Sprintf("go-%d-%d", os.Getpid(), sent), "timestamp": time.Now().UnixMilli()}}
	if cause != "" {
		m.Metadata["causation"] = cause
	}
	line, err := json.Marshal(m)
	if err == nil {
		_, err = conn.Write(append(line, '\n'))
	}
	if err != nil {
		log.Fatal(err)
	}
}

func main() {
	var err error
	if conn, err = net.Dial("unix", os.Getenv("KERNOS_SOCKET")); err != nil { // kernos status --json | jq -r .socket
		log.Fatal(err)
	}
	send("command", "Syscall.Register", "", map[string]any{
		"name": name, "kind": "query", "handler": "connection", "description": "Repeat the last input of a conversation.",
		"inputSchema": map[string]any{}, "outputSchema": map[string]any{}, "timeout": 600_000,
	})
	lines := bufio.NewScanner(conn)
	for lines.Scan() {
		var r request
		if json.Unmarshal(lines.Bytes(), &r) == nil && r.Type == name && (r.Kind == "query" || r.Kind == "command") {
			generate(&r)
		}
	}
	if err := lines.Err(); err != nil {
		log.Fatal(err)
	}
}

func generate(r *request) {
	if ref := r.Data.MessagesRef; ref != nil {
		text, err := os.ReadFile(ref.Path)
		if err == nil {
			err = json.Unmarshal(text, &r.Data.Messages)
		}
		if err != nil {
			send("error", r.Type, r.Metadata.ID, map[string]any{"code": 500, "message": "The conversation can't be read"})
			return
		}
	}
	heard := ""
	for _, m := range r.Data.Messages {
		if m.Type == "input" {
			heard = m.Text
		}
	}
	words := strings.SplitAfter("You said: "+heard, " ")
	for _, word := range words {
		send("event", "Echoing.Said", r.Metadata.ID, map[string]any{"delta": map[string]any{"text": word}})
	}
	send("reply", r.Type, r.Metadata.ID, map[string]any{
		"finish": "stop", "messages": []any{map[string]any{"type": "reply", "text": strings.Join(words, "")}},
		"usage": map[string]any{"input": len(r.Data.Messages), "output": len(words)},
	})
}
