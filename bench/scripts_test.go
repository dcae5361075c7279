package main

import (
	"context"
	"encoding/json"
	"testing"

	kernosd "kernos/daemon"
	"kernos/message"
)

// BenchmarkScript is one call of registered code through the kernel, without a wire.
func BenchmarkScript(b *testing.B) {
	d, err := kernosd.Open(&kernosd.Options{Home: b.TempDir()})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = d.Close() }()
	call := func(kind message.Kind, typ message.Type, data string) {
		if m, err := d.Call(context.Background(), message.Message{Kind: kind, Type: typ, Data: json.RawMessage(data)}, nil); err != nil || m.Kind == message.KindError {
			b.Fatal(err, string(m.Data))
		}
	}
	call(message.KindCommand, "Syscall.Register", register("Bench.Invoice"))
	before := cpuTime()
	b.ReportAllocs()
	for b.Loop() {
		call(message.KindQuery, "Bench.Invoice", handlerInput)
	}
	b.ReportMetric(float64(cpuTime()-before)/float64(b.N), "cpu-ns/op")
}
