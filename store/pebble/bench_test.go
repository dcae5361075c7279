package pebble

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	crdb "github.com/cockroachdb/pebble/v2"

	"kernos/store"
)

// stage fills a batch as one message does: an entry of 500 bytes and four small ones.
func stage(b *store.Batch, n int) {
	b.Reset()
	b.Set(fmt.Appendf(nil, "j/%012d", n), messageValue)
	for i := range 4 {
		b.Set(fmt.Appendf(nil, "i/%d/%012d", i, n), nil)
	}
}

var messageValue = noise(1, 500)

// What the disk can do: one write and one fsync after another.
func BenchmarkBareSync(b *testing.B) {
	f, err := os.Create(filepath.Join(b.TempDir(), "log"))
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	text := noise(1, 700)
	for b.Loop() {
		if _, err := f.Write(text); err != nil {
			b.Fatal(err)
		}
		if err := f.Sync(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkSequential(b *testing.B) {
	e := mustOpen(b, b.TempDir(), nil)
	var batch store.Batch
	b.ReportAllocs()
	for n := 0; b.Loop(); n++ {
		stage(&batch, n)
		c, err := e.Apply(&batch)
		if err == nil {
			err = c.Wait(b.Context())
		}
		if err != nil {
			b.Fatal(err)
		}
	}
}

const writers = 64

// share gives n steps to the writers.
func share(b *testing.B, step func(writer, n int) error) {
	var group sync.WaitGroup
	b.ReportAllocs()
	b.ResetTimer()
	for w := range writers {
		group.Go(func() {
			for n := w; n < b.N; n += writers {
				if err := step(w, n); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	group.Wait()
}

func BenchmarkWriters(b *testing.B) {
	e := mustOpen(b, b.TempDir(), nil)
	var batches [writers]store.Batch
	share(b, func(w, n int) error {
		stage(&batches[w], n)
		c, err := e.Apply(&batches[w])
		if err != nil {
			return err
		}
		return c.Wait(b.Context())
	})
}

// The library alone, with the same settings, batches and promises.
func BenchmarkWritersLibrary(b *testing.B) {
	opts := (*Options)(nil).defaults()
	db, err := crdb.Open(b.TempDir(), opts.forPebble(&logger{log: opts.Log}))
	if err != nil {
		b.Fatal(err)
	}
	defer db.Close()
	var batches [writers]store.Batch
	share(b, func(w, n int) error {
		stage(&batches[w], n)
		batch := db.NewBatch()
		for _, op := range batches[w].Ops {
			if err := batch.Set(op.Key, op.Value, nil); err != nil {
				return err
			}
		}
		if err := batch.Commit(crdb.Sync); err != nil {
			return err
		}
		return batch.Close()
	})
}

// One writer who waits for the commit of 4000 batches before.
func BenchmarkPipelined(b *testing.B) {
	e := mustOpen(b, b.TempDir(), nil)
	var batch store.Batch
	var inFlight [4000]*store.Commit
	b.ReportAllocs()
	for n := 0; b.Loop(); n++ {
		if c := inFlight[n%len(inFlight)]; c != nil {
			if err := c.Wait(b.Context()); err != nil {
				b.Fatal(err)
			}
		}
		stage(&batch, n)
		c, err := e.Apply(&batch)
		if err != nil {
			b.Fatal(err)
		}
		inFlight[n%len(inFlight)] = c
	}
	if err := e.Barrier().Wait(b.Context()); err != nil {
		b.Fatal(err)
	}
}

func BenchmarkGetHot(b *testing.B) {
	e := mustOpen(b, b.TempDir(), nil)
	fillStore(b, e, 100_000, 100)
	if err := e.db.Flush(); err != nil {
		b.Fatal(err)
	}
	key := []byte("m/00050000")
	b.ReportAllocs()
	for b.Loop() {
		if got, err := e.Get(key); err != nil || got.Revision == 0 {
			b.Fatal(got, err)
		}
	}
}

func BenchmarkScan(b *testing.B) {
	e := mustOpen(b, b.TempDir(), nil)
	fillStore(b, e, 1000, 100)
	b.ReportAllocs()
	for b.Loop() {
		for _, err := range e.Scan(store.Range{}) {
			if err != nil {
				b.Fatal(err)
			}
		}
	}
}

func TestGetAllocatesOnce(t *testing.T) {
	e := mustOpen(t, t.TempDir(), nil)
	set(t, e, "m/1", "one")
	key := []byte("m/1")
	if n := testing.AllocsPerRun(1000, func() {
		if _, err := e.Get(key); err != nil {
			t.Error(err)
		}
	}); n > 1.1 { // a pool may have been emptied
		t.Errorf("%v allocations", n)
	}
}
