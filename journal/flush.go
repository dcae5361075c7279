package journal

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"time"

	"kernos/internal/backoff"
	"kernos/store"
)

// flusher writes what has been recorded, some time later, until the journal is closed.
func (j *Journal) flusher() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		// What came during the last flush may not have woken the flusher.
		for some, _ := j.pending(); !some; some, _ = j.pending() {
			select {
			case <-j.flushing.wake:
			case <-j.stop:
				return
			}
		}
		timer.Reset(j.delay())
		for _, plenty := j.pending(); !plenty; {
			select {
			case <-j.flushing.wake:
				_, plenty = j.pending()
			case <-timer.C:
				plenty = true
			case <-j.stop:
				return
			}
		}
		pauses := backoff.Backoff{First: 50 * time.Millisecond, Longest: time.Second}
		for j.Flush() != nil {
			if !pauses.Wait(j.stop) {
				return
			}
		}
	}
}

// pending reports whether anything waits to be written, and whether it is enough for a batch.
func (j *Journal) pending() (some, plenty bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.unwritten(), j.waiting >= maxBatch
}

// flushBuffers is memory that flushes use again. Guarded by Journal.flushMu.
type flushBuffers struct {
	batch    store.Batch
	stored   []byte // pages
	keys     []byte
	blocks   []byte
	names    []name // names of all pages, one page after the other
	ends     []int  // end of each page's names in names
	seqs     []uint64
	mentions []mention
	pages    []*page
}

// Flush makes everything that has been recorded visible to readers of the store. It
// does not wait for the disk. Every reading method does it, and continues if the store
// can't write.
func (j *Journal) Flush() error {
	j.flushMu.Lock()
	defer j.flushMu.Unlock()
	if err := j.openOnce(); err != nil {
		j.refuse(err)
		return err
	}
	j.mu.Lock()
	if j.lost.Lost > 0 && j.waiting < maxWaiting && (len(j.queue) == 0 && j.open == nil || !j.refusing) {
		j.recordLoss()
	}
	j.closePage()
	left := len(j.queue)
	j.mu.Unlock()
	for left > 0 {
		n, err := j.writeSome(left)
		if err != nil {
			j.refuse(err)
			return err
		}
		left -= n
	}
	return nil
}

// refuse notes that the store takes no pages, so that no recorder waits for it.
func (j *Journal) refuse(err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if !j.refusing {
		j.refusing = true
		j.opts.Log.Error("the journal can't write; records are kept in memory while there is room and lost afterwards", "error", err)
	}
	j.wakeRecorders()
}

// wakeRecorders wakes recorders that wait for room. The caller has the lock.
func (j *Journal) wakeRecorders() {
	close(j.room)
	j.room = make(chan struct{})
}

// writeSome writes the oldest pages, most of them at most, and returns how many.
func (j *Journal) writeSome(most int) (int, error) {
	bufs := &j.buffers
	j.mu.Lock()
	bufs.pages = bufs.pages[:0]
	size := 0
	for _, p := range j.queue[:most] {
		if size > 0 && size+p.size() > maxBatch {
			break
		}
		size += p.size()
		bufs.pages = append(bufs.pages, p)
	}
	j.mu.Unlock()

	written, err := j.write(bufs.pages)
	if err != nil {
		return 0, err
	}

	j.mu.Lock()
	defer j.mu.Unlock()
	n := len(bufs.pages)
	clear(j.queue[:n])
	j.queue = j.queue[n:]
	if len(j.queue) == 0 {
		j.queue = nil
	}
	for _, p := range bufs.pages {
		j.waiting -= p.size()
		if p.space() <= 4*pageSize && len(j.spare) < maxSparePages {
			p.reset()
			j.spare = append(j.spare, p)
		}
	}
	clear(bufs.pages)
	if j.refusing {
		j.refusing = false
		j.opts.Log.Info("the journal writes again", "lost", j.lost.Lost)
	}
	if j.lost.Lost > 0 {
		j.wakeUp(&j.flushing) // the loss is recorded even if nothing else is
	}
	j.wakeRecorders()
	j.totals = written
	j.last.Store(written.seq)
	j.wakeUp(&j.indexing)
	j.wakeUp(&j.embedding)
	j.wakeTrimmer()
	return n, nil
}

// write writes pages with their names in one batch, and returns the totals after it.
// It changes nothing of the journal if it fails.
func (j *Journal) write(pages []*page) (totals, error) {
	bufs := &j.buffers
	b, t, dropped := &bufs.batch, j.totals, j.dropped
	b.Reset()
	bufs.stored, bufs.keys, bufs.blocks = bufs.stored[:0], bufs.keys[:0], bufs.blocks[:0]
	bufs.names, bufs.ends, bufs.seqs = bufs.names[:0], bufs.ends[:0], bufs.seqs[:0]
	for _, p := range pages {
		for i := range p.tails {
			t := &p.tails[i]
			b.Delete(t.key[:])
			j.opts.Blobs.Unrefer(b, t.data, t.key[:])
		}
		if p.count == 0 {
			continue
		}
		p.move(t.at)
		size, err := j.addPage(b, t.seq+1, p)
		if err != nil {
			return t, err
		}
		t.seq += uint64(p.count)
		t.at = p.last
		t.bytes += uint64(size)
		dropped.Losses.add(p.lost)
	}
	bufs.addNames()
	// Another writer of pages would have changed the totals: numbers are given once.
	b.IfRevision(key(spaceTotals), t.revision)
	b.Set(key(spaceTotals), t.encode())
	if dropped != j.dropped {
		b.Set(key(spaceDropped), dropped.encode())
	}
	commit, err := j.s.Apply(b)
	if err != nil {
		if errors.Is(err, store.ErrConflict) {
			j.opened = false // look again where the journal is
		}
		return t, err
	}
	t.revision = commit.Revision
	j.dropped = dropped
	return t, nil
}

// addPage adds a page and the references to its blobs, notes its names, and returns how
// many bytes it has.
func (j *Journal) addPage(b *store.Batch, seq uint64, p *page) (size int, err error) {
	bufs := &j.buffers
	k, start := seqKey(spacePages, seq), len(bufs.stored)
	// What append moves stays where it was for the batch.
	bufs.stored = p.append(bufs.stored)
	stored := bufs.stored[start:len(bufs.stored):len(bufs.stored)]
	b.Set(k, stored)
	r := p.reader(seq)
	if bufs.names, err = pageNames(bufs.names, &r); err != nil {
		return 0, err
	}
	bufs.ends, bufs.seqs = append(bufs.ends, len(bufs.names)), append(bufs.seqs, seq)
	j.opts.Blobs.Refer(b, p.data, k)
	return len(stored), nil
}

// addNames adds the names of the pages: all of them as keys, or if they are many all of
// them as blocks.
func (bufs *flushBuffers) addNames() {
	many := len(bufs.names) > manyNames && len(bufs.seqs) < maxInBlock
	bufs.mentions = bufs.mentions[:0]
	start := 0
	for i, end := range bufs.ends {
		names := bufs.names[start:end]
		start = end
		if many {
			for _, n := range names {
				bufs.mentions = append(bufs.mentions, mentionOf(n, i))
			}
			continue
		}
		for _, n := range distinct(names) {
			k := len(bufs.keys)
			bufs.keys = n.appendKey(bufs.keys, bufs.seqs[i]) // the batch keeps what append moves
			bufs.batch.Set(bufs.keys[k:len(bufs.keys):len(bufs.keys)], nil)
		}
	}
	if many {
		bufs.addBlocks(bufs.mentions, bufs.seqs)
	}
}

func (t totals) encode() []byte {
	dst := binary.BigEndian.AppendUint64(nil, t.seq)
	dst = binary.BigEndian.AppendUint64(dst, uint64(t.at))
	return binary.BigEndian.AppendUint64(dst, t.bytes)
}

func readTotals(b []byte) (t totals, ok bool) {
	if len(b) == 0 {
		return t, true
	}
	if len(b) != 24 {
		return t, false
	}
	t.seq = binary.BigEndian.Uint64(b)
	t.at = int64(binary.BigEndian.Uint64(b[8:]))
	t.bytes = binary.BigEndian.Uint64(b[16:])
	return t, true
}

func (d Dropped) encode() []byte {
	text, _ := json.Marshal(d) // numbers and strings only
	return text
}
