package main

import (
	"bytes"
	"context"
	"io"
	"testing"

	"kernos/transport/stdio"
)

// The parts of durable, one by one, for a profile of each.

func BenchmarkSetPipelined(b *testing.B) {
	benchmarkSet(b, false, func(p *place) (float64, error) { return p.pipelined(b.N) })
}
func BenchmarkSetPipelinedRecorded(b *testing.B) {
	benchmarkSet(b, true, func(p *place) (float64, error) { return p.pipelined(b.N) })
}
func BenchmarkSet64(b *testing.B) {
	benchmarkSet(b, false, func(p *place) (float64, error) { return p.sequential(64, 1+b.N/64) })
}
func BenchmarkSetOne(b *testing.B) {
	benchmarkSet(b, false, func(p *place) (float64, error) { return p.sequential(1, b.N) })
}

func benchmarkSet(b *testing.B, record bool, run func(*place) (float64, error)) {
	p, err := newPlace(b.TempDir(), record)
	if err != nil {
		b.Fatal(err)
	}
	before := cpuTime()
	b.ReportAllocs()
	b.ResetTimer()
	if _, err := run(p); err != nil {
		b.Fatal(err)
	}
	b.StopTimer()
	b.ReportMetric(float64(cpuTime()-before)/float64(b.N), "cpu-ns/op")
	if err := p.close(); err != nil {
		b.Fatal(err)
	}
}

func BenchmarkPing(b *testing.B)         { benchmarkPing(b, false) }
func BenchmarkPingRecorded(b *testing.B) { benchmarkPing(b, true) }

func benchmarkPing(b *testing.B, record bool) {
	p, err := newPlace(b.TempDir(), record)
	if err != nil {
		b.Fatal(err)
	}
	text := append(bytes.Join(smallLines(b.N), []byte("\n")), '\n')
	before := cpuTime()
	b.ReportAllocs()
	b.ResetTimer()
	if _, err := stdio.Serve(context.Background(), p.kernel, bytes.NewReader(text), io.Discard, nil); err != nil {
		b.Fatal(err)
	}
	if err := p.close(); err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(cpuTime()-before)/float64(b.N), "cpu-ns/op")
}
