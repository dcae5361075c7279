package history

import (
	"context"
	"iter"
	"sync"

	"kernos/journal"
)

// missing says what a watch leaves out. Like a *journal.Missed it does not end the iteration.
type missing struct {
	journal.Missed
	count uint64 // how many messages would have been sent; all of them where that is not known
}

// A following goes through messages, as [Journal.Follow] does.
type following = func(ctx context.Context, after uint64, f journal.Filter) iter.Seq2[journal.Entry, error]

// maxBuffered is how many bytes of data a buffer holds at most, but for one message.
const maxBuffered = 16 << 20

// buffered reads ahead of a slow loop, into a buffer for so many messages. When it is full,
// the oldest are dropped, and a step with a *missing reports them.
func buffered(follow following, most int) following {
	return func(ctx context.Context, after uint64, f journal.Filter) iter.Seq2[journal.Entry, error] {
		return func(yield func(journal.Entry, error) bool) {
			ctx, cancel := context.WithCancel(ctx)
			b := &buffer{most: most, news: make(chan struct{}, 1)}
			var reader sync.WaitGroup
			defer reader.Wait()
			defer cancel()
			reader.Go(func() {
				for e, err := range follow(ctx, after, f) {
					b.put(waiting{e, err})
				}
				b.end()
			})
			for range b.news {
				for {
					w, ok := b.take()
					if !ok {
						break
					}
					if !yield(w.entry, w.err) {
						return
					}
				}
			}
		}
	}
}

// waiting is a step of the iteration that the loop has not taken yet.
type waiting struct {
	entry journal.Entry
	err   error
}

// A buffer holds steps that wait for a slow loop.
type buffer struct {
	most int
	news chan struct{} // gets a token when there is something to take; closed at the end

	mu    sync.Mutex
	queue []waiting // without gaps before it
	bytes int
	left  *missing // what was left out before queue, or nil
}

// put adds a step. The last one, an error, pushes nothing out.
func (b *buffer) put(w waiting) {
	b.mu.Lock()
	defer b.mu.Unlock()
	missed, gap := w.err.(*journal.Missed)
	if gap {
		w.err = &missing{*missed, missed.To - missed.From + 1}
	}
	b.queue = append(b.queue, w)
	b.bytes += len(w.entry.Message.Data)
	for w.err == nil || gap {
		if len(b.queue) <= b.most && (b.bytes <= maxBuffered || len(b.queue) == 1) {
			break
		}
		b.drop()
	}
	select {
	case b.news <- struct{}{}:
	default: // there is one
	}
}

// drop leaves the oldest step out.
func (b *buffer) drop() {
	w := b.queue[0]
	b.queue[0] = waiting{}
	b.queue = b.queue[1:]
	b.bytes -= len(w.entry.Message.Data)
	gap := &missing{journal.Missed{From: w.entry.Seq, To: w.entry.Seq}, 1}
	if m, ok := w.err.(*missing); ok {
		gap = m
	}
	if b.left == nil {
		b.left = gap
		return
	}
	b.left.To = gap.To
	b.left.count += gap.count
}

// take returns the next step, if there is one.
func (b *buffer) take() (waiting, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if gap := b.left; gap != nil {
		b.left = nil
		return waiting{err: gap}, true
	}
	if len(b.queue) == 0 {
		return waiting{}, false
	}
	w := b.queue[0]
	b.queue[0] = waiting{}
	b.queue = b.queue[1:]
	b.bytes -= len(w.entry.Message.Data)
	return w, true
}

// end says that nothing comes any more.
func (b *buffer) end() { close(b.news) }
