package journal

import (
	"context"
	"encoding/binary"
	"fmt"
	"sync"
	"time"

	"kernos/journal/words"
	"kernos/store"
)

// The words of messages are indexed span by span. A span is some thousand messages, on
// whole pages, and has one key for each word, with the messages that have it. The last
// span is written again as it grows, but only the words that are new in it; when it
// is full, the next one begins. Retention drops whole spans, so that they are smaller where
// little is kept; see [Retention.span].
const (
	spanMessages = 4096
	spanBytes    = 16 << 20 // bytes of pages in a span
	spanMemory   = 16 << 20 // bytes of words and postings in memory

	indexDelay = 500 * time.Millisecond // time from recording a message to indexing its words
	calm       = 100 * time.Millisecond // after this time without a flush, little is being recorded
)

// index is the index of words in the making.
type index struct {
	mu     sync.Mutex // held to index or to drop; taken before flushMu
	loaded bool
	at     indexed
	span   span
	words  map[string]*postings // postings of the span, by word
	memory int                  // approximate bytes of words
	began  int64                // time of the span's first message
	ended  bool                 // the next message is too late for the span
	dirty  []string             // words that are not written yet
	doc    []*postings          // postings of the message that is being read
}

// indexed records how far the words are indexed.
type indexed struct {
	seq   uint64 // number of the last indexed message
	first uint64 // number of the first message of the span that is not full
	docs  uint64 // messages in the index
	words uint64 // words of these messages
}

func (x indexed) encode() []byte { return encodeUvarints(x.seq, x.first, x.docs, x.words) }

func readIndexed(s store.Reader) (indexed, error) {
	x := indexed{first: 1}
	e, err := s.Get(key(spaceIndexed))
	if err == nil && e.Revision > 0 && !readUvarints(e.Value, &x.seq, &x.first, &x.docs, &x.words) {
		err = damaged(nil, "The position of the journal's index can't be read")
	}
	return x, err
}

// span is a number of messages that are indexed together.
type span struct {
	first, last uint64
	words       uint64 // words of the span's messages
	bytes       uint64 // bytes of the span's pages
	at          uint64 // time of the span's last message
}

func (s *span) encode() []byte { return encodeUvarints(s.last, s.words, s.bytes, s.at) }

func readSpan(e store.Entry) (span, error) {
	s := span{first: keySeq(e.Key)}
	if !readUvarints(e.Value, &s.last, &s.words, &s.bytes, &s.at) || s.last < s.first {
		return s, damaged(errSpan, fmt.Sprintf("The journal's index of the messages from %d on can't be read", s.first))
	}
	return s, nil
}

// wordKey returns the key of a word's postings in the span that begins with a message.
func wordKey(dst []byte, word []byte, first uint64) []byte {
	dst = append(append(dst, store.SpaceJournal, spaceWords), word...)
	return binary.BigEndian.AppendUint64(append(dst, 0), first)
}

// postings are the messages of a span that have a word: for each of them how far it is
// after the one before, how often it has the word, and how many words it has.
type postings struct {
	list  []byte
	count int
	last  uint64 // number of the previous message in list
	times uint64 // how often the message that is being read has the word
	dirty bool
}

func (p *postings) value(dst []byte) []byte {
	return append(binary.AppendUvarint(dst, uint64(p.count)), p.list...)
}

// indexer indexes what has been written, a while later, until the journal is closed.
func (j *Journal) indexer() {
	failed, pace := false, pace{j: j}
	at := uint64(0)
	for {
		select {
		case <-j.indexing.wake:
		case <-j.stop:
			return
		}
		for delay := time.After(indexDelay); j.last.Load()-at < spanMessages && delay != nil; {
			select {
			case <-j.indexing.wake:
			case <-delay:
				delay = nil
			case <-j.stop:
				return
			}
		}
		for {
			start, last := time.Now(), j.last.Load()
			now, err := j.indexSome()
			if err != nil && !failed {
				j.opts.Log.Warn("the journal's words can't be indexed; it will be tried again", "error", err)
			}
			stuck := err != nil || now == at && last > at
			failed = err != nil
			at = now
			pause := pace.pause(time.Since(start))
			switch {
			case stuck:
				pause = time.Second
			case j.last.Load()-at < spanMessages:
				pause = 0
			}
			select {
			case <-time.After(pause):
			case <-j.stop:
				return
			}
			if err == nil && j.last.Load()-at < spanMessages {
				break
			}
		}
	}
}

// pace lets work in the background pause while much is recorded.
type pace struct {
	j       *Journal
	last    uint64
	written time.Time // time at which last was seen to have grown
}

// pause returns how long to wait after a step that took some time: recording comes first.
func (p *pace) pause(took time.Duration) time.Duration {
	if now := p.j.last.Load(); now != p.last {
		p.last, p.written = now, time.Now()
	}
	if time.Since(p.written) < calm+took {
		return min(30*took, 3*time.Second)
	}
	return 0
}

// catchUp indexes what was visible when it was called, until ctx ends.
func (j *Journal) catchUp(ctx context.Context) error {
	for target := j.last.Load(); ; {
		at, err := j.indexSome()
		if err != nil || at >= target {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
}

// indexSome indexes the rest of the span, or as much of it as there is, and returns how
// far the words are indexed.
func (j *Journal) indexSome() (uint64, error) {
	x := &j.index
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.loaded && x.at.seq >= j.last.Load() {
		return x.at.seq, nil
	}
	if err := j.loadIndex(); err != nil {
		return 0, err
	}
	for {
		if err := j.readWords(x.at.seq+1, 0); err != nil {
			x.loaded = false
			return 0, err
		}
		full, news := j.spanFull(), x.span.last > x.at.seq
		if !full && !news {
			return x.at.seq, nil
		}
		if err := j.writeWords(full); err != nil {
			x.loaded = false
			return 0, err
		}
		if full {
			x.begin(x.span.last + 1)
		}
		if news {
			return x.at.seq, nil
		}
	}
}

// spanFull reports whether nothing more is added to the span.
func (j *Journal) spanFull() bool {
	x := &j.index
	_, most := j.Retention().span()
	return x.span.last >= x.span.first &&
		(x.ended || x.span.last+1-x.span.first >= spanMessages || x.span.bytes >= most || x.memory >= spanMemory)
}

func (x *index) begin(first uint64) {
	x.at.first = first
	x.span = span{first: first, last: first - 1}
	x.words, x.memory, x.dirty = make(map[string]*postings), 0, nil
	x.began, x.ended = 0, false
}

// loadIndex reads how far the words are indexed, and the words of a span that is not full.
func (j *Journal) loadIndex() error {
	x := &j.index
	if x.loaded {
		return nil
	}
	at, err := readIndexed(j.s)
	if err != nil {
		return err
	}
	x.at = at
	x.begin(at.first)
	if at.seq >= at.first {
		if err := j.readWords(at.first, at.seq); err != nil {
			return err
		}
		for _, w := range x.dirty { // these words are written already
			x.words[w].dirty = false
		}
		x.dirty = nil
		if j.spanFull() {
			x.begin(at.seq + 1)
		}
	}
	x.loaded = true
	return nil
}

// readWords adds the words of the pages from one number on to the span, until it is full,
// or through another number that is not 0: these are in the span already, however full it is.
func (j *Journal) readWords(from, through uint64) error {
	x := &j.index
	to := store.After(key(spacePages))
	if through > 0 {
		to = seqKey(spacePages, through+1)
	}
	longest, _ := j.Retention().span()
	var seq uint64
	length := uint64(0)
	t := words.Tokenizer{}
	t.Emit = func(w []byte) {
		length++
		p := x.words[string(w)]
		if p == nil {
			p = &postings{last: x.span.first - 1}
			x.words[string(w)] = p
			x.memory += len(w) + 160
		}
		if p.times == 0 {
			x.doc = append(x.doc, p)
			if !p.dirty {
				p.dirty = true
				x.dirty = append(x.dirty, string(w))
			}
		}
		p.times++
	}
	var pr pageReader
	for e, err := range j.s.Scan(store.Range{From: seqKey(spacePages, from), To: to}) {
		if err != nil {
			return err
		}
		if through == 0 && x.span.last >= x.span.first && len(e.Value) >= pageHeader && pageTime(e.Value)-x.began >= longest.Milliseconds() {
			x.ended = true
			return nil
		}
		for r, err := range pr.records(keySeq(e.Key), e.Value) {
			if err != nil {
				return damagedPage(err, e.Key)
			}
			if x.span.last < x.span.first {
				x.began = r.at
			}
			seq, length, x.doc = r.seq, 0, x.doc[:0]
			t.Message(r.typ, r.data)
			for _, p := range x.doc {
				before := len(p.list)
				p.list = binary.AppendUvarint(p.list, seq-p.last)
				p.list = binary.AppendUvarint(p.list, p.times)
				p.list = binary.AppendUvarint(p.list, length)
				x.memory += len(p.list) - before
				p.last, p.times = seq, 0
				p.count++
			}
			x.span.last, x.span.at = seq, uint64(r.at)
			x.span.words += length
		}
		x.span.bytes += uint64(len(e.Value))
		if through == 0 && j.spanFull() {
			return nil
		}
	}
	return nil
}

// writeWords writes the words that are new in the span, how far it goes, and whether that is
// all of it.
func (j *Journal) writeWords(full bool) error {
	x := &j.index
	e, err := j.s.Get(seqKey(spaceSpans, x.span.first))
	if err != nil {
		return err
	}
	var old span
	if e.Revision > 0 {
		if old, err = readSpan(e); err != nil {
			return err
		}
	}
	at := x.at
	at.docs += x.span.last - x.at.seq
	at.words += x.span.words - old.words
	at.seq = x.span.last
	if full {
		at.first = at.seq + 1
	}
	var b store.Batch
	size := 0
	for _, w := range x.dirty {
		size += len(w) + len(x.words[w].list) + 32
	}
	slab := make([]byte, 0, size)
	for _, w := range x.dirty {
		start := len(slab)
		slab = wordKey(slab, []byte(w), x.span.first)
		middle := len(slab)
		slab = x.words[w].value(slab)
		b.Set(slab[start:middle:middle], slab[middle:len(slab):len(slab)])
	}
	b.Set(seqKey(spaceSpans, x.span.first), x.span.encode())
	b.Set(key(spaceIndexed), at.encode())
	if _, err := j.s.Apply(&b); err != nil {
		return err
	}
	for _, w := range x.dirty {
		x.words[w].dirty = false
	}
	x.dirty = x.dirty[:0]
	x.at = at
	return nil
}
