package job_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"kernos/capability/job"
	"kernos/kernel"
	"kernos/kernel/principal"
	"kernos/message"
	"kernos/store/pebble"
)

// Starting a job that waits for its time, over a store on disk.
func BenchmarkStart(b *testing.B) {
	benchmark(b, func(start func(string), _ *job.Jobs) {
		for range b.N {
			start(`{"name":"Test.Nothing","payload":{"key":"a"},"delay":"1h"}`)
		}
	})
}

// Starting a job and running it to its end, over a store on disk.
func BenchmarkRun(b *testing.B) {
	benchmark(b, func(start func(string), jobs *job.Jobs) {
		for range b.N {
			start(`{"name":"Test.Nothing","payload":{"key":"a"}}`)
		}
		for {
			s, err := jobs.Stats()
			if err != nil || s.Failed > 0 {
				b.Fatalf("%+v, %v", s, err)
			}
			if s.Completed == uint64(b.N) {
				return
			}
			time.Sleep(time.Millisecond)
		}
	})
}

func benchmark(b *testing.B, run func(start func(string), jobs *job.Jobs)) {
	s, err := pebble.Open(b.TempDir(), nil)
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	jobs := job.New(&job.Options{Store: s, Find: func(principal.ID) (*principal.Principal, error) { return principal.TheOwner(), nil }})
	nothing := kernel.Query(kernel.Definition{Type: "Test.Nothing", Summary: "Does nothing."}, func(_ context.Context, in countData) (countData, error) { return in, nil })
	registry, err := kernel.NewRegistry(jobs.Module(), kernel.Module{Name: "test", Version: "1.0.0", Summary: "Tests.", Syscalls: []kernel.Syscall{nothing}})
	if err != nil {
		b.Fatal(err)
	}
	k := kernel.New(registry, &kernel.Options{Store: s})
	ctx, cancel := context.WithCancel(b.Context())
	ended := make(chan struct{})
	go func() { jobs.Run(ctx, k); close(ended) }()
	defer func() { cancel(); <-ended }()
	var outcome message.Message
	start := func(data string) {
		m := message.Message{Kind: message.KindCommand, Type: "Job.Start", Data: json.RawMessage(data)}
		k.Stamp(&m)
		k.Handle(context.Background(), m, func(m message.Message) { outcome = m })
		if outcome.Kind != message.KindReply {
			b.Errorf("%s: %s", data, outcome.Data)
		}
	}
	b.ReportAllocs()
	b.ResetTimer()
	run(start, jobs)
	b.StopTimer()
}
