package history

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"

	"kernos/journal"
)

// missing reports what a watch leaves out, and is the data of [missedEvent]. Like a
// *journal.Missed it does not end the iteration.
type missing struct {
	From  uint64 `json:"from"`
	To    uint64 `json:"to"`
	Count uint64 `json:"count"` // messages that would have been sent; all messages where that is not known
}

func (m *missing) Error() string {
	return fmt.Sprintf("the messages from %d to %d are left out", m.From, m.To)
}

// missingOf returns what an iteration that ended with err has left out, or nil.
func missingOf(err error) *missing {
	if m, ok := errors.AsType[*journal.Missed](err); ok {
		return &missing{m.From, m.To, m.To - m.From + 1}
	}
	m, _ := errors.AsType[*missing](err)
	return m
}

// A following goes through messages, as [Journal.Follow] does.
type following = func(ctx context.Context, after uint64, f journal.Filter) iter.Seq2[journal.Entry, error]

// maxBuffered is how many bytes of data a buffer holds at most, but for one message.
const maxBuffered = 16 << 20

// buffered reads ahead of a slow loop, into a buffer that most limits. When it is full,
// the oldest are dropped, and a step with a *missing reports them.
func buffered(follow following, most int, budget reserve) following {
	return func(ctx context.Context, after uint64, f journal.Filter) iter.Seq2[journal.Entry, error] {
		return func(yield func(journal.Entry, error) bool) {
			ctx, cancel := context.WithCancel(ctx)
			b := newBuffer(most)
			b.budget = budget
			var reader sync.WaitGroup
			defer b.release()
			defer reader.Wait()
			defer cancel()
			reader.Go(func() {
				for e, err := range follow(ctx, after, f) {
					b.put(waiting{e, err})
				}
				b.end()
			})
			for {
				w, ok := b.take()
				if !ok || !yield(w.entry, w.err) {
					return
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

	mu    sync.Mutex
	news  *sync.Cond // signalled when there is something to take, or the source has ended
	queue []waiting  // messages to take, without gaps
	bytes int
	left  *missing // messages that were left out before queue, or nil
	ended bool

	budget   reserve
	reserved int // bytes of it
}

// A reserve takes bytes of a budget, or gives them back if there are less than none. It reports
// whether there were as many. Nil is without bounds.
type reserve func(n int) bool

func newBuffer(most int) *buffer {
	b := &buffer{most: most}
	b.news = sync.NewCond(&b.mu)
	return b
}

// put adds a step. The last one, an error, pushes nothing out.
func (b *buffer) put(w waiting) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.queue = append(b.queue, w)
	b.bytes += len(w.entry.Message.Data)
	last := w.err != nil && missingOf(w.err) == nil
	for !last && (len(b.queue) > b.most || len(b.queue) > 1 && (b.bytes > maxBuffered || !b.afford())) {
		b.drop()
	}
	b.news.Signal()
}

// reservation is how many bytes are taken of the budget at once.
const reservation = 256 << 10

// afford takes as much of the budget as the buffer needs, and reports whether there was enough.
func (b *buffer) afford() bool {
	if b.budget == nil || b.bytes <= reservation || b.bytes <= b.reserved {
		return true
	}
	if !b.budget(reservation) {
		return false
	}
	b.reserved += reservation
	return b.afford()
}

// release gives back what was taken of the budget.
func (b *buffer) release() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.reserved > 0 {
		b.budget(-b.reserved)
		b.reserved = 0
	}
}

// drop leaves the oldest step out.
func (b *buffer) drop() {
	w := b.shift()
	gap := missingOf(w.err)
	if gap == nil {
		gap = &missing{w.entry.Seq, w.entry.Seq, 1}
	}
	if b.left == nil {
		b.left = gap
		return
	}
	b.left.To = gap.To
	b.left.Count += gap.Count
}

func (b *buffer) shift() waiting {
	w := b.queue[0]
	b.queue[0] = waiting{}
	b.queue = b.queue[1:]
	b.bytes -= len(w.entry.Message.Data)
	return w
}

// take waits for the next step. It returns false when the source has ended.
func (b *buffer) take() (waiting, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for b.left == nil && len(b.queue) == 0 && !b.ended {
		b.news.Wait()
	}
	if gap := b.left; gap != nil {
		b.left = nil
		return waiting{err: gap}, true
	}
	if len(b.queue) == 0 {
		return waiting{}, false
	}
	return b.shift(), true
}

// end notes that nothing more comes.
func (b *buffer) end() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ended = true
	b.news.Signal()
}
