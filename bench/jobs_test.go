package main

import (
	"os"
	"testing"
)

// The rows of jobs, one by one, for a profile of each.

func BenchmarkJobs64(b *testing.B) {
	benchmarkJobs(b, func(w *working) (jobRate, error) {
		return w.fromAll("bench", (b.N+jobConnections-1)/jobConnections)
	})
}

func BenchmarkJobsPipelined(b *testing.B) {
	benchmarkJobs(b, func(w *working) (jobRate, error) { return w.pipelinedJobs("bench", b.N) })
}

func benchmarkJobs(b *testing.B, run func(*working) (jobRate, error)) {
	w, err := openWorking(b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	b.ResetTimer()
	r, err := run(w)
	if err != nil {
		b.Fatal(err)
	}
	b.StopTimer()
	b.ReportMetric(float64(r.cpu), "cpu-ns/op")
	if err := w.stop(); err != nil {
		b.Fatal(err)
	}
}

func BenchmarkJobsDue(b *testing.B) {
	if err := dueAtOnce(os.Stderr, b.TempDir()); err != nil {
		b.Fatal(err)
	}
}
