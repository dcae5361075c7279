package work_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"kernos/store"
	"kernos/store/pebble"
	"kernos/work"
)

// A task from the batch that adds it to the batch that ends it, over a store on disk.
func BenchmarkTask(b *testing.B) {
	s, err := pebble.Open(b.TempDir(), nil)
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	var left sync.WaitGroup
	q := work.New(&work.Options{Store: s, Letter: 'x', Work: func(_ context.Context, l *work.Lease) {
		defer left.Done()
		var batch store.Batch
		ended := l.Done(&batch)
		if _, err := s.Apply(&batch); err != nil {
			b.Error(err)
			return
		}
		ended()
	}})
	ctx, cancel := context.WithCancel(b.Context())
	stopped := make(chan struct{})
	go func() { q.Run(ctx); close(stopped) }()
	left.Add(b.N)
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		var batch store.Batch
		added := q.Add(&batch, work.Task{ID: fmt.Sprintf("%026d", i), Due: time.Now(), Priority: work.DefaultPriority})
		commit, err := s.Apply(&batch)
		if err != nil {
			b.Fatal(err)
		}
		added(commit)
	}
	left.Wait()
	b.StopTimer()
	cancel()
	<-stopped
}
