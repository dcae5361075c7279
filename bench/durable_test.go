package main

import (
	"bytes"
	"context"
	"io"
	"testing"

	"kernos/store"
	"kernos/transport/stdio"
)

// The parts of durable, one by one, for a profile of each.

func BenchmarkSetPipelined(b *testing.B)         { benchmarkPipelined(b, false) }
func BenchmarkSetPipelinedRecorded(b *testing.B) { benchmarkPipelined(b, true) }
func BenchmarkSet64(b *testing.B)                { benchmarkSequential(b, 64, benchKeys/64, false) }
func BenchmarkSet64Recorded(b *testing.B)        { benchmarkSequential(b, 64, benchKeys/64, true) }
func BenchmarkSet64New(b *testing.B)             { benchmarkSequential(b, 64, b.N, false) }
func BenchmarkSetOne(b *testing.B)               { benchmarkSequential(b, 1, benchKeys, false) }
func BenchmarkSetOneRecorded(b *testing.B)       { benchmarkSequential(b, 1, benchKeys, true) }

func benchmarkPipelined(b *testing.B, record bool) {
	lines := setLines("/bench/pipe", benchKeys, b.N)
	benchmarkSet(b, record, func(p *place) (float64, error) { return p.pipelined(lines) })
}

func benchmarkSequential(b *testing.B, connections, keys int, record bool) {
	sets := setsOf(connections, keys, (b.N+connections-1)/connections)
	benchmarkSet(b, record, func(p *place) (float64, error) { return p.sequential(sets) })
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

func BenchmarkPing(b *testing.B)         { benchmarkLines(b, smallLines(b.N), false) }
func BenchmarkPingRecorded(b *testing.B) { benchmarkLines(b, smallLines(b.N), true) }
func BenchmarkGetHot(b *testing.B)       { benchmarkLines(b, getLines(b.N), false) }

func benchmarkLines(b *testing.B, lines [][]byte, record bool) {
	p, err := newPlace(b.TempDir(), record)
	if err != nil {
		b.Fatal(err)
	}
	text := append(bytes.Join(lines, []byte("\n")), '\n')
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

// What the library alone does with the batches of the benchmarks above.

func BenchmarkLibraryPipelined(b *testing.B) {
	lines := setLines("/bench/pipe", benchKeys, b.N)
	benchmarkLibrary(b, func(p *place) (float64, error) { return p.pipelined(lines) }, enginePipelined)
}

func BenchmarkLibrary64(b *testing.B)    { benchmarkLibrary64(b, benchKeys/64) }
func BenchmarkLibrary64New(b *testing.B) { benchmarkLibrary64(b, b.N) }

func benchmarkLibrary64(b *testing.B, keys int) {
	sets := setsOf(64, keys, (b.N+63)/64)
	benchmarkLibrary(b, func(p *place) (float64, error) { return p.sequential(sets) },
		func(dir string, batches []store.Batch) (float64, error) { return engineAlone(dir, batches, 64) })
}

func benchmarkLibrary(b *testing.B, talk func(*place) (float64, error), give func(string, []store.Batch) (float64, error)) {
	batches, err := batchesOf(b.TempDir(), false, talk)
	if err != nil {
		b.Fatal(err)
	}
	before := cpuTime()
	b.ResetTimer()
	if _, err := give(b.TempDir(), batches); err != nil {
		b.Fatal(err)
	}
	b.StopTimer()
	b.ReportMetric(float64(cpuTime()-before)/float64(b.N), "cpu-ns/op")
}
