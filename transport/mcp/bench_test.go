package mcp_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"kernos/kernel"
	"kernos/message"
	"kernos/schema"
)

// BenchmarkHTTP is the call of a tool over stateless HTTP, from the client's bytes and back.
func BenchmarkHTTP(b *testing.B) {
	_, address := serve(b, nil)
	body := request(1, "tools/call", `"name":"Echo","arguments":{"message":"hi"},`+modernMeta)
	text := fmt.Sprintf("POST /mcp HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\nMCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: Echo\r\nContent-Length: %d\r\n\r\n%s", address, len(body), body)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			b.Error(err)
			return
		}
		defer func() { _ = conn.Close() }()
		in := bufio.NewReader(conn)
		for pb.Next() {
			_, _ = io.WriteString(conn, text)
			r, err := http.ReadResponse(in, nil)
			if err != nil || r.StatusCode != 200 {
				b.Error(err, r)
				return
			}
			_, _ = io.Copy(io.Discard, r.Body)
		}
	})
}

// BenchmarkLines is the call of a tool over a connection of kernos mcp.
func BenchmarkLines(b *testing.B) {
	d, _ := serve(b, nil)
	line := request(1, "tools/call", `"name":"Echo","arguments":{"message":"hi"}`) + "\n"
	b.ReportAllocs()
	var out bytes.Buffer
	if err := d.MCP().ServeLines(context.Background(), strings.NewReader(strings.Repeat(line, b.N)), &out, "core"); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkList is tools/list with a thousand tools, when they have changed.
func BenchmarkList(b *testing.B) {
	d, _ := serve(b, nil)
	add := func(n int) {
		s := kernel.Definition{
			Type:    message.Type(fmt.Sprintf("Many.Tool%d", n)),
			Kind:    message.KindQuery,
			Summary: "One of many.",
			Input:   schema.Written(`{"type":"object","properties":{"text":{"type":"string","description":"Some text."}}}`),
			Output:  schema.Written(`{"type":"object"}`),
		}.BindHandler(func(context.Context, message.Message, kernel.Emit) {})
		s.Provider = kernel.Code
		if err := d.Kernel().Registry().AddSyscall(kernel.Module{Name: "many", Version: "1.0.0", Summary: "Many."}, s); err != nil {
			b.Fatal(err)
		}
	}
	for n := range 1000 {
		add(n)
	}
	b.ResetTimer()
	for n := range b.N {
		b.StopTimer()
		add(1000 + n)
		b.StartTimer()
		if err := d.MCP().ServeLines(context.Background(), strings.NewReader(request(1, "tools/list", "")+"\n"), io.Discard, "all"); err != nil {
			b.Fatal(err)
		}
	}
}
