package job_test

import (
	"context"
	"encoding/json"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"kernos/capability/job"
	"kernos/internal/testkit"
	"kernos/kernel"
	"kernos/kernel/kerneltest"
	"kernos/kernel/principal"
	"kernos/message"
	"kernos/store/pebble"
)

// Starting a job that waits for its time, over a store on disk.
func BenchmarkStart(b *testing.B) {
	w := newBenched(b)
	for range b.N {
		w.start(`{"name":"Test.Nothing","payload":{"key":"a"},"delay":"1h"}`)
	}
	b.StopTimer()
}

// Starting a job and running it to its end, over a store on disk.
func BenchmarkRun(b *testing.B) {
	w := newBenched(b)
	for range b.N {
		w.start(`{"name":"Test.Nothing","payload":{"key":"a"}}`)
	}
	w.wait(b.N)
	b.StopTimer()
}

// Schedules that are due at one moment, with their runs to the end, over a store on disk.
func BenchmarkDue(b *testing.B) {
	w := newBenched(b)
	cron := time.Now().Add(time.Hour).Format("5 4 15 2 1 *") // second, minute, hour, day, month
	var starting sync.WaitGroup                              // side by side they share commits
	for range b.N {
		starting.Go(func() { w.start(`{"name":"Test.Nothing","payload":{"key":"a"},"schedule":"` + cron + `"}`) })
	}
	starting.Wait()
	b.ResetTimer()
	cpu := cpuTime()
	w.clock.Advance(2 * time.Hour)
	w.start(`{"name":"Test.Nothing","payload":{"key":"a"},"delay":1}`) // wakes the queue
	w.wait(b.N + 1)
	b.StopTimer()
	b.ReportMetric(float64(cpuTime()-cpu)/float64(b.N), "cpu-ns/op")
}

// cpuTime is the processor time that this process has used.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// benched is a kernel whose jobs do nothing.
type benched struct {
	b      *testing.B
	jobs   *job.Jobs
	kernel *kernel.Kernel
	clock  testkit.Clock
	calls  atomic.Int64
}

func newBenched(b *testing.B) *benched {
	s, err := pebble.Open(b.TempDir(), nil)
	if err != nil {
		b.Fatal(err)
	}
	w := &benched{b: b}
	w.jobs = job.New(&job.Options{
		Store: s,
		Find:  func(principal.ID) (*principal.Principal, error) { return principal.TheOwner(), nil },
		Now:   w.clock.Now,
	})
	nothing := kernel.Query(kernel.Definition{Type: "Test.Nothing", Summary: "Does nothing."}, func(_ context.Context, in countData) (countData, error) {
		w.calls.Add(1)
		return in, nil
	})
	w.kernel = kerneltest.Of(b, &kernel.Options{Store: s}, w.jobs.Module(), kerneltest.Module("test", nothing))
	w.jobs.Begin(w.kernel)
	ctx, cancel := context.WithCancel(b.Context())
	ended := make(chan struct{})
	go func() { w.jobs.Run(ctx, w.kernel); close(ended) }()
	b.Cleanup(func() { cancel(); <-ended; _ = s.Close() })
	b.ReportAllocs()
	b.ResetTimer()
	return w
}

func (w *benched) start(data string) {
	m := message.Message{Kind: message.KindCommand, Type: "Job.Start", Data: json.RawMessage(data)}
	w.kernel.Stamp(&m)
	w.kernel.Handle(w.b.Context(), m, func(m message.Message) {
		if m.Kind != message.KindReply {
			w.b.Errorf("%s: %s", data, m.Data)
		}
	})
}

// wait waits until n jobs are completed.
func (w *benched) wait(n int) {
	for w.calls.Load() < int64(n) {
		time.Sleep(time.Millisecond)
	}
	for {
		s, err := w.jobs.Stats()
		if err != nil || s.Failed > 0 {
			w.b.Fatalf("%+v, %v", s, err)
		}
		if s.Completed == uint64(n) {
			return
		}
		time.Sleep(time.Millisecond)
	}
}
