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

const maxLine = 16384 // bytes of a message

type message struct {
	Kind     string         `json:"kind"`
	Type     string         `json:"type"`
	Data     map[string]any `json:"data"`
	Metadata map[string]any `json:"metadata"`
}

var (
	conn net.Conn
	sent int
)

func send(kind, name string, cause any, data map[string]any) {
	sent++
	m := message{kind, name, data, map[string]any{"id": fmt.Sprintf("go-%d-%d", os.Getpid(), sent), "timestamp": time.Now().UnixMilli()}}
	if cause != nil {
		m.Metadata["causation"] = cause
	}
	line, err := json.Marshal(m)
	if err != nil {
		log.Fatal(err)
	}
	if len(line) > maxLine {
		send("error", name, cause, map[string]any{"code": 413, "message": fmt.Sprintf("The answer would take %d bytes, and a line may have %d", len(line), maxLine)})
		return
	}
	if _, err := conn.Write(append(line, '\n')); err != nil {
		log.Fatal(err)
	}
}

func main() {
	var err error
	if conn, err = net.Dial("unix", os.Getenv("KERNOS_SOCKET")); err != nil { // kernos status --json | jq -r .socket
		log.Fatal(err)
	}
	send("command", "Syscall.Register", nil, map[string]any{
		"name": "Text.Count", "kind": "query", "handler": "connection",
		"description":  "Count the lines, words and characters of a text.",
		"inputSchema":  json.RawMessage(`{"type":"object","properties":{"text":{"type":"string"}},"required":["text"]}`),
		"outputSchema": json.RawMessage(`{"type":"object","required":["lines","words","characters"]}`),
	})
	lines := bufio.NewScanner(conn)
	for lines.Scan() {
		var m message
		if json.Unmarshal(lines.Bytes(), &m) != nil || m.Kind != "query" && m.Kind != "command" || m.Type != "Text.Count" {
			continue // no request: the answer to Syscall.Register, Syscall.Cancelled, an error
		}
		text := m.Data["text"].(string)
		send("event", "Syscall.Progressed", m.Metadata["id"], map[string]any{"message": "counting", "percentage": 0.5})
		send("reply", m.Type, m.Metadata["id"], map[string]any{
			"lines": strings.Count(text, "\n"), "words": len(strings.Fields(text)), "characters": utf8.RuneCountInString(text)})
	}
	if err := lines.Err(); err != nil {
		log.Fatal(err)
	}
}
