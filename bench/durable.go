package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	crdb "github.com/cockroachdb/pebble/v2"

	"kernos/capability/introspect"
	"kernos/capability/memory"
	"kernos/journal"
	"kernos/kernel"
	"kernos/store"
	"kernos/store/blobs"
	"kernos/store/pebble"
	"kernos/transport"
)

// place is a kernel on a store of its own, in a directory that goes away.
type place struct {
	dir     string
	store   *counting
	journal *journal.Journal // nil if nothing is recorded
	kernel  *kernel.Kernel
}

// counting keeps the batches that the kernel applies, so that they can be given to the
// engine alone.
type counting struct {
	store.Store
	keep    bool
	mu      sync.Mutex
	batches []store.Batch
}

func (c *counting) Apply(b *store.Batch) (*store.Commit, error) {
	if c.keep {
		var kept store.Batch
		for _, op := range b.Ops {
			kept.Ops = append(kept.Ops, store.Op{Kind: op.Kind, Key: bytes.Clone(op.Key), Value: bytes.Clone(op.Value)})
		}
		c.mu.Lock()
		c.batches = append(c.batches, kept)
		c.mu.Unlock()
	}
	return c.Store.Apply(b)
}

// taken returns the batches that were kept, and begins anew.
func (c *counting) taken() []store.Batch {
	c.mu.Lock()
	defer c.mu.Unlock()
	batches := c.batches
	c.batches = nil
	return batches
}

func newPlace(dir string, record bool) (*place, error) {
	engine, err := pebble.Open(filepath.Join(dir, "store"), nil)
	if err != nil {
		return nil, err
	}
	p := &place{dir: dir, store: &counting{Store: engine}}
	kept, err := blobs.New(filepath.Join(dir, "blobs"))
	if err != nil {
		return nil, err
	}
	registry, err := kernel.NewRegistry(memory.Module(p.store, kept, nil))
	if err != nil {
		return nil, err
	}
	if err := registry.Add(introspect.Module(registry)); err != nil {
		return nil, err
	}
	opts := kernel.Options{Store: p.store}
	if record {
		p.journal = journal.New(p.store, nil)
		opts.Recorder = p.journal
	}
	p.kernel = kernel.New(registry, &opts)
	return p, nil
}

func (p *place) close() error {
	if p.journal != nil {
		if err := p.journal.Close(); err != nil {
			return err
		}
	}
	return p.store.Close()
}

func setLine(key string, i int) []byte {
	return fmt.Appendf(nil, `{"kind":"command","type":"Memory.Set","data":{"key":%q,"value":{"text":"a note of some length, as an agent would keep one","n":%d}},"metadata":{"id":"set-%s-%d","timestamp":1735000000000}}`+"\n", key, i, key, i)
}

// sequential sends one command after the other, each when the one before is answered, over
// each of some connections, and returns the commands a second of all of them.
func (p *place) sequential(connections, each int) (float64, error) {
	var all sync.WaitGroup
	var failed atomic.Pointer[error]
	begin := time.Now()
	for c := range connections {
		all.Go(func() {
			if err := p.converse(fmt.Sprintf("/bench/%d", c), each, 1); err != nil {
				failed.Store(&err)
			}
		})
	}
	all.Wait()
	if err := failed.Load(); err != nil {
		return 0, *err
	}
	return float64(connections*each) / time.Since(begin).Seconds(), nil
}

// pipelined sends all commands at once over one connection.
func (p *place) pipelined(count int) (float64, error) {
	begin := time.Now()
	err := p.converse("/bench/pipe", count, count)
	return float64(count) / time.Since(begin).Seconds(), err
}

// converse sends commands over a socket, at most inFlight of them unanswered.
func (p *place) converse(key string, count, inFlight int) error {
	theirs, ours := net.Pipe()
	served := make(chan error, 1)
	go func() {
		_, err := transport.Serve(context.Background(), p.kernel, theirs, theirs, nil)
		_ = theirs.Close()
		served <- err
	}()
	if inFlight == 1 {
		err := askEach(ours, key, count)
		_ = ours.Close()
		<-served
		return err
	}
	slots := make(chan struct{}, inFlight)
	sent := make(chan error, 1)
	go func() {
		w := bufio.NewWriterSize(ours, 64<<10)
		for i := range count {
			slots <- struct{}{}
			_, _ = w.Write(setLine(fmt.Sprintf("%s/%d", key, i%1000), i))
		}
		sent <- w.Flush()
	}()
	r := bufio.NewReaderSize(ours, 64<<10)
	for range count {
		line, err := r.ReadSlice('\n')
		if err != nil {
			return err
		}
		if !bytes.Contains(line, []byte(`"kind":"reply"`)) {
			return fmt.Errorf("no reply: %s", line)
		}
		<-slots
	}
	err := <-sent
	_ = ours.Close()
	<-served
	return err
}

// askEach sends one command after the other.
func askEach(conn net.Conn, key string, count int) error {
	r := bufio.NewReaderSize(conn, 4<<10)
	for i := range count {
		if _, err := conn.Write(setLine(fmt.Sprintf("%s/%d", key, i%1000), i)); err != nil {
			return err
		}
		line, err := r.ReadSlice('\n')
		if err != nil {
			return err
		}
		if !bytes.Contains(line, []byte(`"kind":"reply"`)) {
			return fmt.Errorf("no reply: %s", line)
		}
	}
	return nil
}

// engineAlone gives batches to the engine below the contract, from many goroutines, each
// waiting for the disk, and returns the batches a second.
func engineAlone(dir string, batches []store.Batch, writers int) (float64, error) {
	db, err := crdb.Open(dir, &crdb.Options{Logger: quiet{}, MemTableSize: 16 << 20})
	if err != nil {
		return 0, err
	}
	defer func() { _ = db.Close() }()
	var next atomic.Int64
	var failed atomic.Pointer[error]
	var all sync.WaitGroup
	begin := time.Now()
	for range writers {
		all.Go(func() {
			for {
				i := next.Add(1) - 1
				if i >= int64(len(batches)) {
					return
				}
				b := db.NewBatch()
				if err := fill(b, &batches[i]); err != nil {
					failed.Store(&err)
				}
				if err := b.Commit(crdb.Sync); err != nil {
					failed.Store(&err)
				}
				_ = b.Close()
			}
		})
	}
	all.Wait()
	if err := failed.Load(); err != nil {
		return 0, *err
	}
	return float64(len(batches)) / time.Since(begin).Seconds(), nil
}

// enginePipelined gives batches to the engine below the contract from one goroutine, which
// does not wait for the disk, while another one does.
func enginePipelined(dir string, batches []store.Batch) (float64, error) {
	db, err := crdb.Open(dir, &crdb.Options{Logger: quiet{}, MemTableSize: 16 << 20})
	if err != nil {
		return 0, err
	}
	defer func() { _ = db.Close() }()
	pending := make(chan *crdb.Batch, 4000)
	waited := make(chan error, 1)
	begin := time.Now()
	go func() {
		var first error
		for b := range pending {
			if err := b.SyncWait(); err != nil && first == nil {
				first = err
			}
			_ = b.Close()
		}
		waited <- first
	}()
	for i := range batches {
		b := db.NewBatch()
		if err := fill(b, &batches[i]); err != nil {
			return 0, err
		}
		if err := db.ApplyNoSyncWait(b, crdb.Sync); err != nil {
			return 0, err
		}
		pending <- b
	}
	close(pending)
	err = <-waited
	return float64(len(batches)) / time.Since(begin).Seconds(), err
}

func fill(b *crdb.Batch, from *store.Batch) (err error) {
	for _, op := range from.Ops {
		switch op.Kind {
		case store.OpSet:
			err = b.Set(op.Key, op.Value, nil)
		case store.OpDelete:
			err = b.Delete(op.Key, nil)
		case store.OpDeleteRange:
			err = b.DeleteRange(op.Key, op.Value, nil)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

type quiet struct{}

func (quiet) Infof(string, ...any)  {}
func (quiet) Errorf(string, ...any) {}
func (quiet) Fatalf(format string, args ...any) {
	panic(fmt.Sprintf(format, args...))
}

// fsyncs is how many times a second the machine puts a few hundred bytes on disk.
func fsyncs(dir string, count int) (float64, error) {
	f, err := os.Create(filepath.Join(dir, "fsync"))
	if err != nil {
		return 0, err
	}
	defer func() { _ = f.Close() }()
	block := bytes.Repeat([]byte("x"), 300)
	begin := time.Now()
	for range count {
		if _, err := f.Write(block); err != nil {
			return 0, err
		}
		if err := f.Sync(); err != nil {
			return 0, err
		}
	}
	return float64(count) / time.Since(begin).Seconds(), nil
}

// durable measures commands that change something, beside what the disk and the engine do
// alone.
func durable(out io.Writer) error {
	dir, err := os.MkdirTemp("", "kernos-bench-*")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	const writers, each, stream, alone = 64, 400, 100_000, 3000
	fmt.Fprintf(out, "\nMemory.Set, durable when it is answered (a second)\n")
	for _, record := range []bool{false, true} {
		p, err := newPlace(filepath.Join(dir, fmt.Sprint("kernel", record)), record)
		if err != nil {
			return err
		}
		disk, err := fsyncs(dir, alone)
		if err != nil {
			return err
		}
		one, err := p.sequential(1, alone)
		if err != nil {
			return err
		}
		p.store.keep = true
		many, err := p.sequential(writers, each)
		if err != nil {
			return err
		}
		engine, err := engineAlone(filepath.Join(dir, fmt.Sprint("engine", record)), p.store.taken(), writers)
		if err != nil {
			return err
		}
		piped, err := p.pipelined(stream)
		if err != nil {
			return err
		}
		ahead, err := enginePipelined(filepath.Join(dir, fmt.Sprint("ahead", record)), p.store.taken())
		if err != nil {
			return err
		}
		if err := p.close(); err != nil {
			return err
		}
		title := "without a journal"
		if record {
			title = "with a journal"
		}
		fmt.Fprintf(out, "%s:\n", title)
		fmt.Fprintf(out, "  floor: write and fsync of 300 B          %8.0f\n", disk)
		fmt.Fprintf(out, "  one connection, one at a time            %8.0f   %.2f × the time of the floor\n", one, disk/one)
		fmt.Fprintf(out, "  floor: the same batches, Pebble alone, %d writers %6.0f\n", writers, engine)
		fmt.Fprintf(out, "  %d connections                           %8.0f   %.2f of Pebble alone\n", writers, many, many/engine)
		fmt.Fprintf(out, "  floor: the same batches, Pebble alone, one writer, pipelined %6.0f\n", ahead)
		fmt.Fprintf(out, "  one connection, pipelined                %8.0f   %.2f of Pebble alone\n", piped, piped/ahead)
	}
	return nil
}
