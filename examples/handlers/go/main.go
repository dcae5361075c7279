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
	_, _ = conn.Write(append(line, '\n')) // when it fails, there is nothing more to read either
}

// When the daemon ends, the next one is waited for.
func main() {
	for pause := 10 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		var err error
		if conn, err = net.Dial("unix", os.Getenv("KERNOS_SOCKET")); err == nil && serve() { // kernos status --json | jq -r .socket
			log.Print("the daemon has closed the connection; waiting for the next one")
			pause = 10 * time.Millisecond
		}
		time.Sleep(pause)
	}
}

// serve serves until the connection ends, and reports whether the daemon has accepted the registration.
func serve() (registered bool) {
	send("command", "Syscall.Register", nil, map[string]any{
		"name": "Text.Count", "kind": "query", "handler": "connection",
		"description":  "Count the lines, words and characters of a text.",
		"inputSchema":  json.RawMessage(`{"type":"object","properties":{"text":{"type":"string"}},"required":["text"]}`),
		"outputSchema": json.RawMessage(`{"type":"object","required":["lines","words","characters"]}`),
	})
	lines := bufio.NewScanner(conn)
	for lines.Scan() {
		var m message
		_ = json.Unmarshal(lines.Bytes(), &m)
		switch {
		case m.Kind == "error" && m.Type == "Syscall.Register":
			log.Fatalf("Text.Count can't be served: %v", m.Data["message"])
		case m.Kind == "reply" && m.Type == "Syscall.Register":
			registered = true
		}
		if m.Kind != "query" && m.Kind != "command" || m.Type != "Text.Count" {
			continue // no request: Syscall.Cancelled, an error
		}
		text := m.Data["text"].(string)
		send("event", "Syscall.Progressed", m.Metadata["id"], map[string]any{"message": "counting", "percentage": 0.5})
		send("reply", m.Type, m.Metadata["id"], map[string]any{
			"lines": strings.Count(text, "\n"), "words": len(strings.Fields(text)), "characters": utf8.RuneCountInString(text)})
	}
	return registered
}
