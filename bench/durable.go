package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	crdb "github.com/cockroachdb/pebble/v2"

	kernosd "kernos/daemon"
	"kernos/internal/testkit/wire"
	"kernos/kernel"
	"kernos/store"
	"kernos/store/pebble"
	"kernos/transport"
)

// place is a kernel on a store of its own, in a directory that goes away.
type place struct {
	daemon *kernosd.Daemon
	kernel *kernel.Kernel
}

// keeping keeps the batches that the kernel applies, so that they can be given to the
// engine alone.
type keeping struct {
	store.Store
	mu      sync.Mutex
	batches []store.Batch
}

func (k *keeping) Apply(b *store.Batch) (*store.Commit, error) {
	var kept store.Batch
	for _, op := range b.Ops {
		kept.Ops = append(kept.Ops, store.Op{Kind: op.Kind, Key: bytes.Clone(op.Key), Value: bytes.Clone(op.Value)})
	}
	k.mu.Lock()
	k.batches = append(k.batches, kept)
	k.mu.Unlock()
	return k.Store.Apply(b)
}

// batchesOf returns the batches that a kernel applies when it is talked to.
func batchesOf(dir string, record bool, talk func(*place) (float64, error)) ([]store.Batch, error) {
	engine, err := pebble.Open(filepath.Join(dir, "store"), nil)
	if err != nil {
		return nil, err
	}
	kept := &keeping{Store: engine}
	p, err := newPlaceOn(kept, dir, record)
	if err != nil {
		return nil, err
	}
	if _, err := talk(p); err != nil {
		return nil, err
	}
	return kept.batches, p.close()
}

func newPlace(dir string, record bool) (*place, error) {
	engine, err := pebble.Open(filepath.Join(dir, "store"), nil)
	if err != nil {
		return nil, err
	}
	return newPlaceOn(engine, dir, record)
}

func newPlaceOn(s store.Store, dir string, record bool) (*place, error) {
	d, err := kernosd.Open(&kernosd.Options{
		Home: dir, Unrecorded: !record, OpenStore: func(string) (store.Store, error) { return s, nil },
	})
	if err != nil {
		return nil, err
	}
	return &place{daemon: d, kernel: d.Kernel()}, nil
}

func (p *place) close() error { return p.daemon.Close() }

// benchKeys is how many keys are set, again and again.
const benchKeys = 1024

// setLines returns commands that give some keys values, in turn.
func setLines(prefix string, keys, count int) [][]byte {
	lines := make([][]byte, count)
	for i := range lines {
		key := fmt.Sprintf("%s/%d", prefix, i%keys)
		lines[i] = fmt.Appendf(nil, `{"kind":"command","type":"Memory.Set","data":{"key":%q,"value":{"text":"a note of some length, as an agent would keep one","n":%d}},"metadata":{"id":"set-%s-%d","timestamp":1735000000000}}`+"\n", key, i, key, i)
	}
	return lines
}

// setsOf returns the commands of some connections, each with some keys of its own.
func setsOf(connections, keys, each int) [][][]byte {
	all := make([][][]byte, connections)
	for c := range all {
		all[c] = setLines(fmt.Sprintf("/bench/%d/%d", each, c), keys, each)
	}
	return all
}

// sequential sends one command after the other, each when the one before is answered, over
// each of some connections, and returns the commands a second of all of them.
func (p *place) sequential(connections [][][]byte) (float64, error) {
	var all sync.WaitGroup
	var failed atomic.Pointer[error]
	begin := time.Now()
	count := 0
	for _, lines := range connections {
		count += len(lines)
		all.Go(func() {
			if err := p.converse(lines, askEach); err != nil {
				failed.Store(&err)
			}
		})
	}
	all.Wait()
	if err := failed.Load(); err != nil {
		return 0, *err
	}
	return float64(count) / time.Since(begin).Seconds(), nil
}

// pipelined sends all commands at once over one connection.
func (p *place) pipelined(lines [][]byte) (float64, error) {
	begin := time.Now()
	err := p.converse(lines, askAll)
	return float64(len(lines)) / time.Since(begin).Seconds(), err
}

// converse sends commands over a connection within the process.
func (p *place) converse(lines [][]byte, ask func(io.ReadWriter, [][]byte) error) error {
	theirs, ours := wire.New()
	served := make(chan error, 1)
	go func() {
		_, err := transport.Serve(context.Background(), p.kernel, theirs, theirs, nil)
		_ = theirs.Close()
		served <- err
	}()
	err := ask(ours, lines)
	_ = ours.Close()
	<-served
	return err
}

// askAll sends all commands, and reads the answers meanwhile.
func askAll(conn io.ReadWriter, lines [][]byte) error {
	sent := make(chan error, 1)
	go func() {
		w := bufio.NewWriterSize(conn, 64<<10)
		for _, line := range lines {
			_, _ = w.Write(line)
		}
		sent <- w.Flush()
	}()
	r := bufio.NewReaderSize(conn, 64<<10)
	for range lines {
		if err := readReply(r); err != nil {
			return err
		}
	}
	return <-sent
}

// askEach sends one command after the other.
func askEach(conn io.ReadWriter, lines [][]byte) error {
	r := bufio.NewReaderSize(conn, 4<<10)
	for _, line := range lines {
		if _, err := conn.Write(line); err != nil {
			return err
		}
		if err := readReply(r); err != nil {
			return err
		}
	}
	return nil
}

func readReply(r *bufio.Reader) error {
	line, err := r.ReadSlice('\n')
	if err == nil && !bytes.Contains(line, []byte(`"kind":"reply"`)) {
		err = fmt.Errorf("no reply: %s", line)
	}
	return err
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

// A way is one to set keys: over the kernel, and with the library alone.
type way struct {
	name string
	talk func(*place) (float64, error)
	give func(dir string, batches []store.Batch) (float64, error)
}

// measure gives a new kernel something to do, and the same batches to a new store of the
// library alone, in turn. It returns what both do a second when they are at the median of
// their ratios.
func (w *way) measure(dir string, record bool) (ours, alone float64, err error) {
	const rounds = 3
	batches, err := batchesOf(filepath.Join(dir, "batches"), record, w.talk)
	if err != nil {
		return 0, 0, err
	}
	pairs := make([][2]float64, rounds)
	for i := range pairs {
		under := filepath.Join(dir, fmt.Sprint(i))
		if pairs[i][0], err = once(filepath.Join(under, "kernel"), record, w.talk); err != nil {
			return 0, 0, err
		}
		if pairs[i][1], err = w.give(filepath.Join(under, "alone"), batches); err != nil {
			return 0, 0, err
		}
		if err := os.RemoveAll(under); err != nil {
			return 0, 0, err
		}
	}
	slices.SortFunc(pairs, func(a, b [2]float64) int { return cmp.Compare(a[0]/a[1], b[0]/b[1]) })
	return pairs[rounds/2][0], pairs[rounds/2][1], nil
}

// once gives a new kernel something to do.
func once(dir string, record bool, talk func(*place) (float64, error)) (float64, error) {
	p, err := newPlace(dir, record)
	if err != nil {
		return 0, err
	}
	rate, err := talk(p)
	return rate, errors.Join(err, p.close())
}

// durable measures commands that change something, beside what the disk and the engine do
// alone.
func durable(out io.Writer) error {
	dir, err := os.MkdirTemp("", "kernos-bench-*")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	const writers, each, stream, alone = 64, 3200, 300_000, 3000
	fmt.Fprintf(out, "\nMemory.Set, durable when it is answered (a second)\n")
	single, crowd := setsOf(1, benchKeys, alone), setsOf(writers, benchKeys/writers, each)
	fresh, burst := setsOf(writers, each/2, each/2), setLines("/bench/pipe", benchKeys, stream)
	crowded := func(dir string, batches []store.Batch) (float64, error) { return engineAlone(dir, batches, writers) }
	ways := []way{
		{"one connection, pipelined", func(p *place) (float64, error) { return p.pipelined(burst) }, enginePipelined},
		{fmt.Sprintf("%d connections", writers), func(p *place) (float64, error) { return p.sequential(crowd) }, crowded},
		{fmt.Sprintf("%d connections, keys that are new", writers), func(p *place) (float64, error) { return p.sequential(fresh) }, crowded},
	}
	for _, record := range []bool{false, true} {
		title := "without a journal"
		if record {
			title = "with a journal"
		}
		fmt.Fprintf(out, "%s:\n", title)
		disk, err := fsyncs(dir, alone)
		if err != nil {
			return err
		}
		one, err := once(filepath.Join(dir, "one", title), record, func(p *place) (float64, error) { return p.sequential(single) })
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "  floor: write and fsync of 300 B          %8.0f\n", disk)
		fmt.Fprintf(out, "  one connection, one at a time            %8.0f   %.2f × the time of the floor\n", one, disk/one)
		for i := range ways {
			ours, alone, err := ways[i].measure(filepath.Join(dir, title, fmt.Sprint(i)), record)
			if err != nil {
				return err
			}
			fmt.Fprintf(out, "  %-40s %8.0f   %.2f of the same batches and syncs by Pebble alone, %.0f\n", ways[i].name, ours, ours/alone, alone)
		}
	}
	return nil
}
