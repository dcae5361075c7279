package journal

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"time"

	"kernos/kernel"
	"kernos/message"
	"kernos/schema"
	"kernos/store"
	"kernos/store/pebble"
)

// nowhere is a store that takes everything and keeps nothing.
type nowhere struct{ store.Store }

func (nowhere) Get([]byte) (store.Entry, error)           { return store.Entry{}, nil }
func (nowhere) Apply(*store.Batch) (*store.Commit, error) { return store.Committed(1), nil }
func (nowhere) Barrier() *store.Commit                    { return store.Committed(1) }

var ping = &kernel.Syscall{Definition: kernel.Definition{Type: "Ping", Input: schema.Any, Output: schema.Any}}

// cpu is the time that the process has worked: what a benchmark costs on a machine that
// has other things to do.
func cpu() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func pingAndPong() (request, reply kernel.Record) {
	m := query("01JAXV5Y2Z4B8Q0R6T7W9E3F1G", "Ping", `{"payload":"hello"}`)
	request, reply = in(m), out(made(m.Reply(json.RawMessage(`{"pong":true,"payload":"hello"}`))))
	request.Syscall, reply.Syscall = ping, ping
	return request, reply
}

// BenchmarkRecord records a request and its reply. The clock says what the one who records
// waits; the processor also what is done behind its back, but for the store's work.
func BenchmarkRecord(b *testing.B) {
	j := New(nowhere{memory(b)}, &Options{Log: quiet})
	defer j.Close()
	request, reply := pingAndPong()
	b.ReportAllocs()
	start := cpu()
	for b.Loop() {
		j.Record(request)
		j.Record(reply)
	}
	b.ReportMetric(float64(cpu()-start)/float64(b.N), "cpu-ns/op")
}

// BenchmarkAppend is the part of Record that its caller pays for.
func BenchmarkAppend(b *testing.B) {
	j := New(nowhere{memory(b)}, &Options{Log: quiet})
	j.flushing.started = true // no flusher
	request, reply := pingAndPong()
	b.ReportAllocs()
	start := cpu()
	for b.Loop() {
		j.Record(request)
		j.Record(reply)
		if len(j.queue) > 100 {
			for _, p := range j.queue {
				p.reset()
			}
			j.spare = append(j.spare, j.queue...)
			j.queue, j.waiting = j.queue[:0], 0
		}
	}
	b.ReportMetric(float64(cpu()-start)/float64(b.N), "cpu-ns/op")
}

// BenchmarkFlush writes a batch of pages to a disk.
func BenchmarkFlush(b *testing.B) {
	e, err := pebble.Open(b.TempDir(), nil)
	if err != nil {
		b.Fatal(err)
	}
	defer e.Close()
	j := New(e, &Options{Log: quiet})
	defer j.Close()
	j.flushing.started, j.indexing.started = true, true
	n, start := 0, cpu()
	for b.Loop() {
		for j.waiting < maxBatch {
			request := query(message.ID(fmt.Sprint(n)), "Ping", `{"payload":"hello"}`)
			exchange(j, request, `{"pong":true,"payload":"hello"}`)
			n++
		}
		if err := j.Flush(); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(cpu()-start)/float64(2*n), "cpu-ns/message")
}

// BenchmarkMillion finds messages among a million on a disk.
func BenchmarkMillion(b *testing.B) {
	const million = 1_000_000
	dir := b.TempDir()
	e, err := pebble.Open(dir, nil)
	if err != nil {
		b.Fatal(err)
	}
	j := New(e, &Options{Log: quiet})
	start, used := time.Now(), cpu()
	var some []message.ID
	for i := range million / 2 {
		m := query(message.ID(fmt.Sprintf("request-%d", i)), "Memory.Get", fmt.Sprintf(`{"key":"/notes/%d","text":"hello world"}`, i))
		if i%100 == 0 {
			m.Metadata.Correlation = "spread" // 10,000 messages
		} else if i%5 == 0 {
			m.Metadata.Correlation = fmt.Sprintf("workflow-%d", i/250)
		}
		reply := exchange(j, m, fmt.Sprintf(`{"value":"note number %d says hello world"}`, i))
		if i%1000 == 0 {
			some = append(some, m.Metadata.ID, reply.Metadata.ID)
		}
	}
	ctx := context.Background()
	if err := j.Sync(ctx); err != nil {
		b.Fatal(err)
	}
	b.Logf("recording: %.2f s by the clock, %.2f s of work, with %d of %d indexed", time.Since(start).Seconds(), (cpu() - used).Seconds(), j.index.at.seq, j.last.Load())
	start, used = time.Now(), cpu()
	if err := j.catchUp(ctx); err != nil {
		b.Fatal(err)
	}
	b.Logf("indexing the rest: %.2f s, %.2f s of work", time.Since(start).Seconds(), (cpu() - used).Seconds())
	st, err := j.Stats()
	if err != nil {
		b.Fatal(err)
	}
	if err := j.Close(); err != nil {
		b.Fatal(err)
	}
	if err := e.Close(); err != nil {
		b.Fatal(err)
	}
	var disk int64
	_ = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, _ error) error {
		if info, err := d.Info(); err == nil && !d.IsDir() {
			disk += info.Size()
		}
		return nil
	})
	b.Logf("%d bytes a message in pages, %d on the disk", int64(st.Bytes)/million, disk/million)

	start = time.Now()
	if e, err = pebble.Open(dir, nil); err != nil {
		b.Fatal(err)
	}
	defer e.Close()
	opened := time.Since(start)
	j = New(e, &Options{Log: quiet})
	defer j.Close()
	if _, err := j.Stats(); err != nil {
		b.Fatal(err)
	}
	b.Logf("opening: %v the engine, %v in all", opened, time.Since(start))

	b.Run("Get", func(b *testing.B) {
		for i := 0; b.Loop(); i++ {
			if _, err := j.Get(ctx, some[i%len(some)]); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("GetMissing", func(b *testing.B) { // all blocks of a bucket
		for i := 0; b.Loop(); i++ {
			if _, err := j.Get(ctx, message.ID(fmt.Sprintf("missing-%d", i))); err == nil {
				b.Fatal("it is there")
			}
		}
	})
	b.Run("List100", func(b *testing.B) {
		for i := 0; b.Loop(); i++ {
			q := Query{Filter: Filter{Correlation: fmt.Sprintf("workflow-%d", i%2000)}}
			if l, _, err := j.List(ctx, q); err != nil || len(l) < 80 {
				b.Fatal(len(l), err)
			}
		}
	})
	b.Run("List10000Spread", func(b *testing.B) {
		for b.Loop() {
			q := Query{Filter: Filter{Correlation: "spread"}, Limit: MaxLimit}
			if l, _, err := j.List(ctx, q); err != nil || len(l) != 10_000 {
				b.Fatal(len(l), err)
			}
		}
	})
	b.Run("Last100", func(b *testing.B) {
		for b.Loop() {
			if l, _, err := j.List(ctx, Query{Reverse: true}); err != nil || len(l) != 100 {
				b.Fatal(len(l), err)
			}
		}
	})
	b.Run("SearchCommon", func(b *testing.B) {
		for b.Loop() {
			if r, err := j.Search(ctx, SearchQuery{Words: "hello world", Limit: 20}); err != nil || r.Total != million {
				b.Fatal(r.Total, err)
			}
		}
	})
	b.Run("SearchRare", func(b *testing.B) {
		for i := 0; b.Loop(); i++ {
			if r, err := j.Search(ctx, SearchQuery{Words: fmt.Sprintf("note %d", i*1000%(million/2)), Limit: 20}); err != nil || len(r.Hits) == 0 {
				b.Fatal(r.Total, err)
			}
		}
	})
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	var mem runtime.MemStats
	runtime.ReadMemStats(&mem)
	b.Logf("resident at most %d MB; heap %d MB", u.Maxrss>>10, mem.HeapInuse>>20)
}
