// Command go serves Text.Count: a program of its own that becomes a syscall of the kernel.
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
	"unicode/utf8"
)

type message struct {
	Kind     string         `json:"kind"`
	Type     string         `json:"type"`
	Data     map[string]any `json:"data"`
	Metadata map[string]any `json:"metadata"`
}

func main() {
	conn, err := net.Dial("unix", os.Getenv("KERNOS_SOCKET")) // kernos status --json | jq -r .socket
	if err != nil {
		log.Fatal(err)
	}
	sent := 0
	send := func(kind, name string, cause any, data map[string]any) {
		sent++
		m := message{kind, name, data, map[string]any{"id": fmt.Sprintf("go-%d-%d", os.Getpid(), sent), "timestamp": time.Now().UnixMilli()}}
		if cause != nil {
			m.Metadata["causation"] = cause
		}
		if err := json.NewEncoder(conn).Encode(m); err != nil {
			log.Fatal(err)
		}
	}
	send("command", "Syscall.Register", nil, map[string]any{
		"name": "Text.Count", "kind": "query", "handler": "connection",
		"description":  "Count the lines, words and characters of a text.",
		"inputSchema":  json.RawMessage(`{"type":"object","properties":{"text":{"type":"string"}},"required":["text"]}`),
		"outputSchema": json.RawMessage(`{"type":"object","required":["lines","words","characters"]}`),
	})
	for lines := bufio.NewScanner(conn); lines.Scan(); {
		var m message
		if json.Unmarshal(lines.Bytes(), &m) != nil || m.Type != "Text.Count" {
			continue // the answer to Syscall.Register, or Syscall.Cancelled
		}
		text := m.Data["text"].(string)
		send("event", "Syscall.Progressed", m.Metadata["id"], map[string]any{"message": "counting", "percentage": 0.5})
		send("reply", m.Type, m.Metadata["id"], map[string]any{
			"lines": strings.Count(text, "\n"), "words": len(strings.Fields(text)), "characters": utf8.RuneCountInString(text)})
	}
}
