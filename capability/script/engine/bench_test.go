package engine_test

import (
	"context"
	"encoding/json"
	"syscall"
	"testing"

	"kernos/capability/script/engine"
)

// cpu reports the processor time of each iteration, which a busy machine distorts less than time.
func cpu(b *testing.B) {
	used := func() int64 {
		var u syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
			b.Fatal(err)
		}
		return u.Utime.Nano() + u.Stime.Nano()
	}
	before := used()
	b.Cleanup(func() { b.ReportMetric(float64(used()-before)/float64(b.N), "cpu-ns/op") })
}

func BenchmarkRun(b *testing.B) {
	e := newEngine(b, engine.Options{})
	p := compile(b, e, `export const handler = (input: { a: number; b: number }) => ({ sum: input.a + input.b });`)
	cpu(b)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := e.Run(context.Background(), p, json.RawMessage(`{"a":1,"b":2}`), nil, engine.Limits{}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkCompile(b *testing.B) {
	e := newEngine(b, engine.Options{})
	cpu(b)
	for b.Loop() {
		compile(b, e, `export const handler = (input: { a: number; b: number }) => ({ sum: input.a + input.b });`)
	}
}

func BenchmarkLoop(b *testing.B) {
	e := newEngine(b, engine.Options{})
	p := compile(b, e, `export const handler = () => { let s = 0; for (let i = 0; i < 1e6; i++) s = (s + i) | 0; return s };`)
	cpu(b)
	for b.Loop() {
		if _, err := e.Run(context.Background(), p, json.RawMessage(`{}`), nil, engine.Limits{}); err != nil {
			b.Fatal(err)
		}
	}
}
