package main

import (
	"bytes"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
)

// BenchmarkRPC100 is calls over a hundred connections, one at a time each, in one process,
// for a profile of the server.
func BenchmarkRPC100(b *testing.B) { benchmarkRPC(b, 100, 1) }

// BenchmarkRPC100Pipelined is the same with 64 calls in flight over each.
func BenchmarkRPC100Pipelined(b *testing.B) { benchmarkRPC(b, 100, 64) }

// BenchmarkRPC1 is calls one after the other.
func BenchmarkRPC1(b *testing.B) { benchmarkRPC(b, 1, 1) }

func benchmarkRPC(b *testing.B, connections, inFlight int) {
	handler, err := kernosRPC()
	if err != nil {
		b.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	server := &http.Server{Handler: handler}
	go func() { _ = server.Serve(l) }()
	s := &rpcServer{addr: l.Addr().String(), last: []byte(`"type":"done"`),
		ping: `{"jsonrpc":"2.0","id":1,"method":"kernel_ping","params":[{"payload":"` + strings.Repeat("x", 100) + `"}]}`}
	calls := bytes.Repeat(masked(s.ping), inFlight)
	var all sync.WaitGroup
	b.ReportAllocs()
	b.ResetTimer()
	before := cpuTime()
	for range connections {
		c, err := s.dial()
		if err != nil {
			b.Fatal(err)
		}
		all.Go(func() {
			defer func() { _ = c.Close() }()
			for range (b.N + connections*inFlight - 1) / (connections * inFlight) {
				if _, err := c.Write(calls); err != nil {
					b.Error(err)
					return
				}
				for done := 0; done < inFlight; {
					frame, err := c.next()
					if err != nil {
						b.Error(err)
						return
					}
					if bytes.Contains(frame, s.last) {
						done++
					}
				}
			}
		})
	}
	all.Wait()
	b.StopTimer()
	b.ReportMetric(float64(cpuTime()-before)/float64(b.N), "cpu-ns/op")
	_ = server.Close()
}
