package journal

import (
	"bytes"
	crand "crypto/rand"
	"encoding/binary"
	"sync"
	"time"

	"github.com/oklog/ulid/v2"

	"kernos/internal/jsonvalue"
	"kernos/kernel"
	"kernos/message"
	"kernos/store"
)

// How much waits to be written, and for how long.
const (
	maxWaiting    = 4 << 20               // bytes of pages that are not packed; then recorders wait
	maxWait       = 2 * time.Second       // how long recorders wait; then the record is lost
	maxBatch      = 1 << 20               // bytes of pages that are written at once
	maxSparePages = 128                   // written pages whose memory is kept for reuse
	maxDelay      = 20 * time.Millisecond // time from recording a message to writing it
	liveDelay     = 2 * time.Millisecond  // maxDelay while a reader follows
)

// lostEvent is the type of the event that stands where records are missing.
const lostEvent message.Type = "Journal.Lost"

type lostData struct {
	Messages uint64 `json:"messages"`
	Since    int64  `json:"since"` // milliseconds since 1970
	Until    int64  `json:"until"`
	Reason   string `json:"reason"`
}

// writing is what waits to be written, guarded by Journal.mu.
type writing struct {
	open     *page   // the page that records go to, or nil
	closed   bool    // the journal is closed
	queue    []*page // closed pages, oldest first
	waiting  int     // bytes of closed pages
	refusing bool    // the store does not take pages
	lost     Losses  // losses that have not been recorded yet
	lastTail int64
	room     chan struct{} // closed and replaced when there is room in the queue again
	spare    []*page       // written pages, kept for reuse
}

func (w *writing) unwritten() bool {
	return len(w.queue) > 0 || w.open != nil || w.lost.Lost > 0
}

// recorded reports whether a message is recorded at all. What a syscall recalls from
// the journal is there already.
func recorded(r *kernel.Record) bool {
	return r.Message != nil && r.Message.Kind.Valid() &&
		(r.Syscall == nil || r.Syscall.Answers != kernel.FromJournal || r.Message.Kind != message.KindEvent)
}

// Record implements [kernel.Recorder]. It waits while more than a few megabytes wait to be
// written, for two seconds at most. Then, or if the store takes no writes, the record
// is lost and counted; see [Journal.Dropped].
func (j *Journal) Record(r kernel.Record) {
	if !recorded(&r) {
		return
	}
	i := newItem(&r)
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.waiting < maxWaiting || j.waitForRoom() {
		j.append(time.Now().UnixMilli(), &i)
	} else if !j.closed {
		now := time.Now().UnixMilli()
		j.lost.add(Losses{Lost: 1, LostSince: now, LostUntil: now})
	}
}

// append puts a record into the open page and makes sure that it will be written. The
// caller has the lock.
func (j *Journal) append(at int64, i *item) {
	if j.closed {
		return
	}
	if j.lost.Lost > 0 && !j.refusing {
		j.recordLoss()
	}
	if j.open != nil && j.open.count > 0 && j.open.size()+len(i.data) > 2*pageSize {
		j.closePage() // a large record has a page of its own
	}
	if j.open == nil {
		j.openPage()
	}
	j.open.add(at, i)
	if j.open.size() >= pageSize {
		j.closePage()
	}
}

// openPage begins a page. The first one that waits to be written wakes the flusher.
func (j *Journal) openPage() {
	if n := len(j.spare); n > 0 {
		j.open, j.spare = j.spare[n-1], j.spare[:n-1]
	} else {
		j.open = new(page)
	}
	if len(j.queue) == 0 {
		j.wakeUp(&j.flushing)
	}
}

// closePage appends the open page to the pages that wait to be written.
func (j *Journal) closePage() {
	if j.open == nil {
		return
	}
	before := j.waiting
	j.queue = append(j.queue, j.open)
	j.waiting += j.open.size()
	j.open = nil
	if before < maxBatch && j.waiting >= maxBatch {
		j.wakeUp(&j.flushing)
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

// recordLoss records that something was lost. The caller has the lock.
func (j *Journal) recordLoss() {
	l := j.lost
	j.lost = Losses{}
	now := time.Now()
	data := lostData{Messages: l.Lost, Since: l.LostSince, Until: l.LostUntil, Reason: "The store did not take them"}
	m := message.Message{Kind: message.KindEvent, Type: lostEvent, Data: jsonvalue.Marshal(data),
		Metadata: message.Metadata{ID: message.ID(ulid.Make().String()), Timestamp: now.UnixMilli()}}
	i := newItem(&kernel.Record{Message: &m, Way: kernel.Within})
	if j.open == nil {
		j.openPage()
	}
	j.open.lost.add(l)
	j.open.add(now.UnixMilli(), &i)
}

// RecordWith implements [kernel.Recorder]. Its error is that of apply. If no request caused
// what happens, the first record is empty.
func (j *Journal) RecordWith(b *store.Batch, rs []kernel.Record, apply func() error) error {
	d := drafts.Get().(*draft)
	defer d.free()
	first := 0 // the first of rs that has not been recorded yet
	for i := range rs {
		if !recorded(&rs[i]) {
			continue
		}
		d.items = append(d.items, newItem(&rs[i]))
		if i == 0 {
			first = 1
		}
	}
	if len(d.items) == 0 {
		return apply()
	}
	now := time.Now()
	added := j.addTail(b, d, now)
	if err := apply(); err != nil {
		return err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.closed || j.waiting >= maxWaiting && !j.waitForRoom() {
		return nil // the tail stays, and becomes a page when the journal is opened again
	}
	j.appendTail(now, d.items[first:], added)
	return nil
}

// addTail adds the records of a draft to a batch.
func (j *Journal) addTail(b *store.Batch, d *draft, now time.Time) tail {
	for i := range d.items {
		d.tail.add(now.UnixMilli(), &d.items[i])
	}
	d.key = j.tailKey(now)
	d.stored = d.tail.append(d.stored)
	b.Set(d.key[:], d.stored)
	added := tail{key: d.key}
	ops := len(b.Ops)
	if j.opts.Blobs.Refer(b, d.tail.data, d.key[:]); len(b.Ops) > ops {
		added.data = bytes.Clone(d.tail.data)
	}
	return added
}

// appendTail puts the records of a tail into pages, when its batch has been applied. The caller
// has the lock.
func (j *Journal) appendTail(now time.Time, items []item, added tail) {
	for i := range items {
		j.append(now.UnixMilli(), &items[i])
	}
	// A page that is written later than all of them lets go of the tail.
	if j.open == nil {
		j.openPage()
	}
	j.open.tails = append(j.open.tails, added)
}

// A draft is a tail while it is made, and what it is made of. It is used again.
type draft struct {
	items  []item
	tail   page
	key    tailKey
	stored []byte
}

var drafts = sync.Pool{New: func() any { return new(draft) }}

// maxDraft is how many bytes a draft may have that is used again.
const maxDraft = 64 << 10

func (d *draft) free() {
	if cap(d.stored)+d.tail.space() > maxDraft {
		return
	}
	clear(d.items)
	d.items, d.stored = d.items[:0], d.stored[:0]
	d.tail.reset()
	drafts.Put(d)
}

func (j *Journal) tailKey(now time.Time) (k tailKey) {
	j.mu.Lock()
	j.lastTail = max(j.lastTail+1, now.UnixNano())
	n := j.lastTail
	j.mu.Unlock()
	k[0], k[1] = store.SpaceJournal, spaceTails
	binary.BigEndian.PutUint64(k[2:], uint64(n))
	copy(k[10:], j.who[:])
	return k
}

func newWho() (who [8]byte) {
	_, _ = crand.Read(who[:]) // never fails
	return who
}
