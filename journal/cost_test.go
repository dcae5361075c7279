package journal

import (
	"fmt"
	"testing"
	"time"

	"kernos/internal/embed"
	"kernos/message"
	"kernos/store/pebble"
	"kernos/store/vectors"
)

// BenchmarkEmbeddingBeside records messages with and without a model. Compare cpu-ns/message and the rates of one run.
func BenchmarkEmbeddingBeside(b *testing.B) {
	for _, c := range []struct {
		name   string
		models []embed.Model
	}{{"off", nil}, {"on", []embed.Model{embed.English()}}} {
		b.Run(c.name, func(b *testing.B) {
			e, err := pebble.Open(b.TempDir(), nil)
			if err != nil {
				b.Fatal(err)
			}
			defer e.Close()
			j := New(e, &Options{Log: quiet, Models: c.models, Vectors: vectors.NewCache(1<<26, time.Minute)})
			defer j.Close()
			used, n := cpu(), 0
			for b.Loop() {
				m := query(message.ID(fmt.Sprintf("request-%d", n)), "Memory.Get", fmt.Sprintf(`{"key":"/notes/%d","text":"hello world"}`, n))
				exchange(j, m, fmt.Sprintf(`{"value":"note number %d says hello world"}`, n))
				n++
			}
			b.ReportMetric(float64(cpu()-used)/float64(2*n), "cpu-ns/message")
			b.ReportMetric(float64(2*n)/b.Elapsed().Seconds(), "messages/s")
		})
	}
}
