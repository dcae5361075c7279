// Package journal keeps the messages that pass through a kernel: it records them,
// without what is secret, and finds them again by id, correlation, causation, type, time,
// words and meaning.
//
// It is a [kernel.Recorder] over a store:
//
//	j := journal.New(s, nil)
//	defer j.Close()
//	k := kernel.New(registry, &kernel.Options{Recorder: j})
//	…
//	e, err := j.Get(ctx, "01JAXV5Y2Z4B8Q0R6T7W9E3F1G")
//	entries, next, err := j.List(ctx, journal.Query{Filter: journal.Filter{Correlation: "c1"}, Limit: 100})
//
// Recording must cost next to nothing, so a message is not a key of its own: records are
// put one after the other into pages (page.go), which are compressed before the store
// has anything to do with them. What records are found by stands apart from their data,
// so that finding a few records, or how they belong together, reads little of
// a page. A page is written with one key for each name that it has (names.go), be it on
// one record or on twenty. When there is much to write, many names of many pages share a
// key (blocks.go). A name is a hash, so a page that is found by a name may not have it, and its records are compared.
// Words are indexed in the background, in spans of a few thousand messages
// (index.go), and so are the vectors of what messages mean (meaning.go).
//
// A record that belongs to a batch must survive whatever the batch survives, but is not
// worth a page. It goes into the batch as a tail, and later into a page like all others;
// the batch that writes the page deletes the tail. Tails that a crash leaves become
// pages when the journal is opened (recover.go).
//
// Three invariants hold whenever a batch has been applied, and [Journal.Check] looks at
// them:
//
//	P1  pages follow each other without a gap or an overlap in their numbers, and their
//	    times never go back
//	P2  a page has exactly the names of its records: each has a key, or each is listed
//	    in a block. A block lists an existing page, and beside it no other but pages
//	    that retention has dropped
//	P3  a span has exactly the words of its records
//
// # Goroutines
//
//   - The flusher, the indexer and the embedder, one each per journal: the first record, or the first page, starts
//     them, and they end with [Journal.Close].
//   - Reading half of many pages, one per query, which waits for it.
//   - The timer that forgets the classes of messages, for a moment.
package journal

import (
	"cmp"
	"context"
	"log/slog"
	"sync"
	"sync/atomic"

	"kernos/internal/embed"
	"kernos/kernel"
	"kernos/store"
	"kernos/store/vectors"
)

// Options are the settings of a Journal. Nil means the defaults.
type Options struct {
	// Retention sets what [Journal.Trim] drops, until SetRetention changes it.
	Retention

	// Blobs keeps the blobs that are mentioned in what is written: in the data of a page, one
	// after the other, or of a tail. Their owner is the key. Nil means that none are kept.
	Blobs kernel.BlobOwners

	// Models embed messages, so that they are found by what they mean; see [vectors.Options]. Vectors is the memory of
	// searches. No models mean that messages are found by their words only.
	Models  []embed.Model
	Vectors *vectors.Cache

	// Log gets what is reported nowhere else: that records are lost, that the index is stuck.
	// Nil means slog.Default.
	Log *slog.Logger
}

// A Journal keeps messages. It is safe for concurrent use.
type Journal struct {
	s    store.Store
	opts Options
	who  [8]byte // distinguishes the tails of this Journal from the tails of others

	mu sync.Mutex // guards writing
	writing

	flushMu sync.Mutex // held to write pages; taken before mu
	opened  bool
	totals  totals
	dropped Dropped
	buffers flushBuffers

	last atomic.Uint64 // the last number that is visible
	keep atomic.Pointer[Retention]

	followers atomic.Int64
	index     index
	meaning   *vectors.Texts // what messages mean; nil if there is no model
	classes   classes

	flushing, indexing, embedding worker

	over chan struct{} // signals that Trim should be called: there is too much
	stop chan struct{} // closed by Close
	done sync.WaitGroup

	ctx    context.Context // ends with Close
	cancel context.CancelFunc
}

// totals is what has been written, ever.
type totals struct {
	seq      uint64         // number of the last record
	at       int64          // time of the last record
	bytes    uint64         // bytes of all pages
	revision store.Revision // revision of the key that holds the totals
}

// New returns a journal in a store. It does nothing before it is used. The
// caller closes the store after the journal.
func New(s store.Store, opts *Options) *Journal {
	j := &Journal{s: s, over: make(chan struct{}, 1), stop: make(chan struct{})}
	if opts != nil {
		j.opts = *opts
	}
	j.opts.Log = cmp.Or(j.opts.Log, slog.Default())
	j.opts.Blobs = cmp.Or[kernel.BlobOwners](j.opts.Blobs, noBlobs{})
	j.SetRetention(j.opts.Retention)
	j.who = newWho()
	j.writing.room = make(chan struct{})
	j.ctx, j.cancel = context.WithCancel(context.Background())
	j.flushing, j.indexing = newWorker(j.flusher), newWorker(j.indexer)
	if len(j.opts.Models) > 0 {
		j.meaning = vectors.NewTexts(vectors.Options{Store: s, Prefix: key(spaceMeaning), Source: j.texts, Cache: j.opts.Vectors, Models: j.opts.Models})
		j.embedding = newWorker(j.embedder)
	}
	return j
}

// A worker is a goroutine of the journal, which is started when it is first needed. Guarded by Journal.mu. The zero
// worker does nothing.
type worker struct {
	work    func()
	started bool
	wake    chan struct{} // has a token when there may be something to do
}

func newWorker(work func()) worker { return worker{work: work, wake: make(chan struct{}, 1)} }

// wakeUp wakes a worker. The caller has mu.
func (j *Journal) wakeUp(w *worker) {
	if j.closed || w.work == nil {
		return
	}
	if !w.started {
		w.started = true
		j.done.Go(w.work)
	}
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

var _ kernel.Recorder = (*Journal)(nil)

// noBlobs is for a journal that keeps no blobs.
type noBlobs struct{}

func (noBlobs) Refer(*store.Batch, []byte, []byte)   {}
func (noBlobs) Unrefer(*store.Batch, []byte, []byte) {}

// Sync makes everything that has been recorded durable.
func (j *Journal) Sync(ctx context.Context) error {
	if err := j.Flush(); err != nil {
		return err
	}
	return j.s.Barrier().Wait(ctx)
}

// Close writes what has been recorded, and ends the journal. What is recorded afterwards
// is forgotten. It does not close the store.
func (j *Journal) Close() error {
	j.mu.Lock()
	if j.closed {
		j.mu.Unlock()
		return nil
	}
	j.closed = true
	pending := j.unwritten()
	j.mu.Unlock()
	close(j.stop)
	j.cancel()
	j.done.Wait()
	if !pending {
		return nil // a journal that was not used does not open its store to be closed
	}
	return j.Flush()
}

// visible prepares for reading: it opens the journal and flushes.
func (j *Journal) visible() error {
	if err := j.Flush(); err != nil {
		// What can't be written can't be found; what was written can.
		j.flushMu.Lock()
		defer j.flushMu.Unlock()
		return j.openOnce()
	}
	return nil
}

// snapshot returns the latest state with all that was recorded in it.
func (j *Journal) snapshot() (store.Snapshot, error) {
	if err := j.visible(); err != nil {
		return nil, err
	}
	return j.s.Snapshot()
}
