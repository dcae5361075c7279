package main

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	kernosd "kernos/daemon"
)

// BenchmarkMCPHTTP is tools/call of an echo over stateless HTTP, with 16 connections, in one process, for
// a profile of the server.
func BenchmarkMCPHTTP(b *testing.B) {
	d, err := kernosd.Open(&kernosd.Options{Home: b.TempDir(), Web: &kernosd.Web{Address: "127.0.0.1:0", NoToken: true}})
	if err != nil {
		b.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- d.Serve(ctx) }()
	s := &mcpServer{}
	for _, url := range d.URLs() {
		if address, ok := strings.CutPrefix(url, "http://"); ok {
			s.address = address
		}
	}
	one := s.request("tools/call", "Echo", echoCall)
	var all sync.WaitGroup
	b.ReportAllocs()
	b.ResetTimer()
	before := cpuTime()
	for range mcpConnections {
		c, err := dialHTTP(s.address)
		if err != nil {
			b.Fatal(err)
		}
		all.Go(func() {
			defer func() { _ = c.Close() }()
			for range (b.N + mcpConnections - 1) / mcpConnections {
				body, err := c.ask(one)
				if err != nil || !bytes.Contains(body, []byte("xxxxxxxxxx")) {
					b.Errorf("%v %s", err, body)
					return
				}
			}
		})
	}
	all.Wait()
	b.StopTimer()
	b.ReportMetric(float64(cpuTime()-before)/float64(b.N), "cpu-ns/op")
	stop()
	if err := errors.Join(<-served, d.Close()); err != nil {
		b.Fatal(err)
	}
}
