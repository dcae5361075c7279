package journal

import (
	"bytes"
	crand "crypto/rand"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/oklog/ulid/v2"

	"kernos/kernel"
	"kernos/message"
	"kernos/store"
)

// How much waits to be written, and for how long.
const (
	maxWaiting    = 4 << 20               // bytes of pages; who records more waits
	maxWait       = 2 * time.Second       // and then it is lost
	maxBatch      = 512 << 10             // bytes of pages that are written at once
	maxSparePages = 256                   // buffers of pages that are kept for later
	maxDelay      = 20 * time.Millisecond // from a record to its write
)

// Lost is the type of the event that stands where records are missing.
const Lost message.Type = "Journal.Lost"

// writing is what waits to be written, guarded by Journal.mu.
type writing struct {
	open     *page   // the page that records go to, or nil
	closed   bool    // the journal is
	started  bool    // the flusher is
	queue    []*page // closed pages, oldest first
	waiting  int     // bytes of closed pages
	refusing bool    // the store does not take pages
	lost     lost    // what is not recorded and has not been said
	lastTail int64
	room     chan struct{} // closed and replaced when there is room in the queue again
	spare    [][]byte      // buffers of pages that have been written
}

// lost counts records that could not be kept.
type lost struct {
	messages     uint64
	since, until int64 // when, in milliseconds since 1970
}

func (l *lost) add(n int, now int64) {
	if l.messages == 0 {
		l.since = now
	}
	l.messages += uint64(n)
	l.until = now
}

// unwritten reports whether something waits to be written.
func (w *writing) unwritten() bool {
	return len(w.queue) > 0 || w.open != nil || w.lost.messages > 0
}

// A text is a record on its way into a page.
type text struct {
	buf []byte
	encoded
	naming
}

// maxSpare is the largest buffer that is kept for later.
const maxSpare = 32 << 10

// newText is a record as it may be recorded. It must be freed.
func (j *Journal) newText(r *kernel.Record) *text {
	t, ok := j.texts.Get().(*text)
	if !ok {
		t = new(text)
	}
	data, redacted := kernel.Redact(*r)
	t.buf, t.encoded = encode(t.buf[:0], r, data, redacted)
	t.naming.read(r)
	return t
}

func (j *Journal) free(t *text) {
	if cap(t.buf) <= maxSpare {
		j.texts.Put(t)
	}
}

// recorded reports whether a message is recorded at all. What a syscall recalls from
// the journal is there already.
func recorded(r *kernel.Record) bool {
	return r.Message != nil && r.Message.Kind.Valid() &&
		(r.Syscall == nil || !r.Syscall.Recalls || r.Message.Kind != message.KindEvent)
}

// Record implements [kernel.Recorder]. It waits while more than a few megabytes wait to be
// written, for two seconds at most. Then, or if the store takes no writes, the record
// is lost and counted; see [Journal.Dropped].
func (j *Journal) Record(r kernel.Record) {
	if !recorded(&r) {
		return
	}
	t := j.newText(&r)
	j.mu.Lock()
	if j.waiting < maxWaiting || j.waitForRoom() {
		j.append(time.Now().UnixMilli(), t)
	} else if !j.closed {
		j.lost.add(1, time.Now().UnixMilli())
	}
	j.mu.Unlock()
	j.free(t)
}

// append puts a record into the open page and sees to it that it will be written. The
// caller has the lock.
func (j *Journal) append(at int64, t *text) {
	if j.closed {
		return
	}
	if j.lost.messages > 0 && !j.refusing {
		j.confess()
	}
	if j.open != nil && j.open.count > 0 && len(j.open.buf)+len(t.buf) > 2*pageSize {
		j.closePage() // a large record has a page of its own
	}
	if j.open == nil {
		j.openPage()
	}
	j.open.add(at, &t.encoded, t.buf)
	j.open.name(&t.naming)
	if len(j.open.buf) >= pageSize {
		j.closePage()
	}
}

// openPage begins a page. The first one that waits to be written wakes the flusher.
func (j *Journal) openPage() {
	var buf []byte
	if n := len(j.spare); n > 0 {
		buf, j.spare = j.spare[n-1], j.spare[:n-1]
	} else {
		buf = make([]byte, 0, pageSize+pageSize/4)
	}
	j.open = newPage(buf)
	if !j.started && !j.closed {
		j.started = true
		j.done.Go(j.flusher)
	}
	if len(j.queue) == 0 {
		j.wakeFlusher()
	}
}

// closePage puts the open page behind those that wait to be written.
func (j *Journal) closePage() {
	if j.open == nil {
		return
	}
	before := j.waiting
	j.queue = append(j.queue, j.open)
	j.waiting += len(j.open.buf)
	j.open = nil
	if before < maxBatch && j.waiting >= maxBatch {
		j.wakeFlusher()
	}
}

func (j *Journal) wakeFlusher() {
	select {
	case j.wake <- struct{}{}:
	default:
	}
}

// waitForRoom waits until a page more may wait to be written and reports whether it
// may. The caller has the lock, and has it again afterwards.
func (j *Journal) waitForRoom() bool {
	if j.refusing || j.closed {
		return false
	}
	limit := time.NewTimer(maxWait)
	defer limit.Stop()
	for j.waiting >= maxWaiting {
		if j.refusing || j.closed {
			return false
		}
		room := j.room
		j.mu.Unlock()
		late := false
		select {
		case <-room:
		case <-j.stop:
		case <-limit.C:
			late = true
		}
		j.mu.Lock()
		if late {
			return j.waiting < maxWaiting
		}
	}
	return true
}

// confess records that something was lost. The caller has the lock.
func (j *Journal) confess() {
	l := j.lost
	j.lost = lost{}
	now := time.Now()
	data := fmt.Appendf(nil, `{"messages":%d,"since":%d,"until":%d,"reason":"The store did not take them"}`, l.messages, l.since, l.until)
	m := message.Message{Kind: message.KindEvent, Type: Lost, Data: data,
		Metadata: message.Metadata{ID: message.ID(ulid.Make().String()), Timestamp: now.UnixMilli()}}
	t := new(text)
	t.buf, t.encoded = encode(nil, &kernel.Record{Message: &m, Way: kernel.Within}, data, false)
	if j.open == nil {
		j.openPage()
	}
	if j.open.lost.messages == 0 {
		j.open.lost.since = l.since
	}
	j.open.lost.messages += l.messages
	j.open.lost.until = l.until
	j.open.add(now.UnixMilli(), &t.encoded, t.buf)
}

// RecordWith implements [kernel.Recorder]. Its error is that of apply.
func (j *Journal) RecordWith(b *store.Batch, rs []kernel.Record, apply func() error) error {
	now := time.Now()
	tail := newPage(make([]byte, 0, 1024))
	kept := make([]*text, 0, len(rs))
	defer func() {
		for _, t := range kept {
			j.free(t)
		}
	}()
	first := 0 // of kept that has not been recorded yet
	for i := range rs {
		if !recorded(&rs[i]) {
			continue
		}
		t := j.newText(&rs[i])
		tail.add(now.UnixMilli(), &t.encoded, t.buf)
		kept = append(kept, t)
		if i == 0 {
			first = 1
		}
	}
	if tail.count == 0 {
		return apply()
	}
	tail.seal(0)
	k := j.tailKey(now)
	ops := len(b.Ops)
	b.Set(k, tail.buf)
	beside := besides{key: k}
	if j.opts.BlobRefs != nil && j.opts.BlobPath != "" && bytes.Contains(tail.buf, []byte(j.opts.BlobPath)) {
		j.opts.BlobRefs(b, tail.buf, k)
		beside.text = tail.buf
	}
	if err := apply(); err != nil {
		b.Ops = b.Ops[:ops]
		return err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.closed || j.waiting >= maxWaiting && !j.waitForRoom() {
		return nil // the tail stays, and becomes a page when the journal is opened again
	}
	for _, t := range kept[first:] {
		j.append(now.UnixMilli(), t)
	}
	// A page that is written later than all of them lets go of the tail.
	if j.open == nil {
		j.openPage()
	}
	j.open.tails = append(j.open.tails, beside)
	return nil
}

// tailKey returns a key that no other tail has and that sorts by time.
func (j *Journal) tailKey(now time.Time) []byte {
	j.mu.Lock()
	j.lastTail = max(j.lastTail+1, now.UnixNano())
	n := j.lastTail
	j.mu.Unlock()
	return append(binary.BigEndian.AppendUint64(key(spaceTails), uint64(n)), j.who[:]...)
}

func newWho() (who [8]byte) {
	_, _ = crand.Read(who[:]) // never fails
	return who
}
