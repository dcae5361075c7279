package pebble

import (
	"bytes"
	"encoding/binary"
	"errors"

	crdb "github.com/cockroachdb/pebble/v2"

	"kernos/store"
)

// A Publisher gets what the owner of an origin writes, group by group, and brings it to the other copies. A group is a
// number of batches that become durable together.
type Publisher interface {
	// Publish takes a group, whose number follows the one before. It doesn't wait, and keeps the body.
	Publish(number uint64, body []byte)

	// Wait waits until a group and all before it are accepted. If it returns an error, no later group will be.
	Wait(number uint64) error

	// Accepted returns the number of the last accepted group, and the sequence of the last accepted entry.
	Accepted() (number, sequence uint64)

	// Pending returns how many bytes are not accepted yet.
	Pending() int

	// Holds returns nil while the owner may show what it has, and otherwise an error for callers.
	Holds() error
}

const (
	maxUndone     = 2 << 20  // bytes: larger batches are published before they are applied
	maxUnaccepted = 32 << 20 // bytes that are not accepted; then batches are published before they are applied
)

// publishing is the part of an engine that has a publisher. A group is taken back if it is never accepted, so what it
// replaces is remembered next to it. What would be too much to remember is published first: the deletion of a range,
// and a large batch. It is given to Pebble when it was accepted.
type publishing struct {
	to     Publisher
	number uint64   // of the last group
	link   uint32   // of the last group
	sent   []sent   // the groups with undo records
	at     Position // the last one that was written
	record []byte   // the undo record of the group that Pebble is being given
	stored []byte   // the position

	// last has the last key of each keyspace of the journal. Nothing is after it, which Pebble need not be asked
	// about: nearly all records of the journal are new.
	last [256][]byte

	// tails has records of the journal that wait for their page. Each is soon deleted, by a group that has to put it back
	// if it is never accepted, and by then Pebble may have moved it to a table.
	tails     map[string]tail
	tailBytes int

	before []prior // what the batch that is being applied replaces; guarded by applyLock
}

// A sent is a group that was published, and has an undo record.
type sent struct {
	number uint64
	link   uint32
}

// A tail is a record of the journal that a group has set.
type tail struct {
	group uint64
	value []byte
}

// A prior is what is known about a key that a batch changes, without asking Pebble.
type prior struct {
	known bool
	entry *store.Entry // nil, or with revision 0, if the key is absent
}

// precedes reports whether a batch has to be published before it is applied.
func (p *publishing) precedes(b *store.Batch, size int) bool {
	if size > maxUndone || p.to.Pending() > maxUnaccepted {
		return true
	}
	for i := range b.Ops {
		if b.Ops[i].Kind == store.OpDeleteRange {
			return true
		}
	}
	return false
}

// lookBack notes what is known about the keys of a batch, before the batch changes that. The caller holds applyLock.
func (e *Engine) lookBack(b *store.Batch) {
	p := e.publishing
	p.before = p.before[:0]
	for i := range b.Ops {
		key := b.Ops[i].Key
		if e.absence.sure(key) {
			p.before = append(p.before, prior{known: true})
			continue
		}
		entry, _ := e.cache.get(key)
		p.before = append(p.before, prior{entry != nil, entry})
	}
}

// giveAndPublish is give for an engine with a publisher.
func (e *Engine) giveAndPublish(g *group) error {
	p := e.publishing
	number := p.number + 1
	body := bodyOf(e.opts.schema.version, p.link, g.batch)
	link := Link(body)
	first := g.first
	if !first {
		// What can't be read can't be put back.
		first = e.remember(g) != nil || len(p.record) > 2*maxUndone
	}
	if first {
		for i := range p.last { // the keys of this group were not noted
			p.last[i] = p.last[i][:0]
		}
		clear(p.tails)
		p.tailBytes = 0
		p.to.Publish(number, body)
		if err := p.to.Wait(number); err != nil {
			e.cache.applied(g.cacheChanges)
			return err
		}
	}
	forgotten := p.advance(g.batch)
	p.at.Number = number
	if first {
		p.at.Link = link
	} else {
		_ = g.batch.Set(undoKey(number), p.record, nil)
	}
	p.stored = p.at.encode(p.stored)
	_ = g.batch.Set([]byte(positionKey), p.stored, nil)

	err := e.db.ApplyNoSyncWait(g.batch, crdb.Sync)
	e.cache.applied(g.cacheChanges)
	if err != nil {
		if first { // other copies have the group, so this one must not continue without it
			e.disk.freeze(store.Errorf(503, err, "The store in %s can't continue to write; start kernos again", e.dir))
		}
		return e.readError(err)
	}
	p.number, p.link, g.number = number, link, number
	p.sent = p.sent[:copy(p.sent, p.sent[forgotten:])]
	if !first {
		p.sent = append(p.sent, sent{number, link})
		p.to.Publish(number, body)
	}
	if cap(p.record) > maxGroup {
		p.record = nil
	}
	e.queue.given(g, true)
	return nil
}

// advance notes how far the groups are accepted, deletes their undo records, and returns how many there are.
func (p *publishing) advance(b *crdb.Batch) (n int) {
	p.at.Accepted, p.at.Sequence = p.to.Accepted()
	for ; n < len(p.sent) && p.sent[n].number <= p.at.Accepted; n++ {
		// A record is set once, so that it can leave Pebble's table in memory without a trace.
		_ = b.SingleDelete(undoKey(p.sent[n].number), nil)
		p.at.Link = p.sent[n].link
	}
	return n
}

// remember makes the undo record of a group.
func (e *Engine) remember(g *group) error {
	p := e.publishing
	p.record = p.record[:0]
	n := 0
	pages, err := e.lastPage()
	if err != nil {
		return err
	}
	for r := g.batch.Reader(); ; {
		kind, key, value, more, err := r.Next()
		if err != nil || !more {
			return err
		}
		if string(key) != revisionKey {
			before := g.before[n]
			n++
			if before, known := p.tail(kind, key, value); known {
				if before.group != p.number+1 { // otherwise the record has the key
					p.record = appendUndo(p.record, key, before.value, true)
				}
				continue
			}
			fresh := kind == crdb.InternalKeyKindSet && isAbout(key) && numberOf(key) > pages
			if !fresh {
				fresh, err = e.comesLast(key)
			}
			switch {
			case err != nil:
				return err
			case fresh || before.known && (before.entry == nil || before.entry.Revision == 0):
				p.record = appendUndo(p.record, key, nil, false)
				continue
			case before.known:
				p.record = appendUndoEntry(p.record, key, before.entry)
				continue
			}
		}
		value, closer, err := e.db.Get(key)
		if errors.Is(err, crdb.ErrNotFound) {
			p.record = appendUndo(p.record, key, nil, false)
			e.absence.miss(key)
			continue
		}
		if err != nil {
			return err
		}
		p.record = appendUndo(p.record, key, value, true)
		if err := closer.Close(); err != nil {
			return err
		}
	}
}

// The keyspaces of the journal that are looked at here.
const (
	journalPages  = 'p' // number of the page → records
	journalNames  = 'n' // …, number of the page → nothing
	journalBlocks = 'b' // …, number of the first page → names
	journalTails  = 't' // time → records that are in no page yet
)

// isAbout reports whether a key is about a page of the journal, whose number it ends with. It is set in the batch that sets
// the page.
func isAbout(key []byte) bool {
	return len(key) > 10 && key[0] == store.SpaceJournal && (key[1] == journalNames || key[1] == journalBlocks)
}

func numberOf(key []byte) uint64 { return binary.BigEndian.Uint64(key[len(key)-8:]) }

// lastPage returns the number of the last page of the journal that Pebble has.
func (e *Engine) lastPage() (uint64, error) {
	if err := e.findLast(journalPages); err != nil {
		return 0, err
	}
	last := e.publishing.last[journalPages]
	if len(last) < 10 {
		return 0, nil
	}
	return numberOf(last), nil
}

// maxTails is how many bytes of records that wait for their page are kept.
const maxTails = 8 << 20

// tail notes a record of the journal that waits for its page, and returns what the key had before, if that is known.
func (p *publishing) tail(kind crdb.InternalKeyKind, key, value []byte) (before tail, known bool) {
	if len(key) < 3 || key[0] != store.SpaceJournal || key[1] != journalTails {
		return before, false
	}
	if before, known = p.tails[string(key)]; known {
		delete(p.tails, string(key))
		p.tailBytes -= len(before.value)
	}
	if kind == crdb.InternalKeyKindSet && p.tailBytes+len(value) <= maxTails {
		if p.tails == nil {
			p.tails = make(map[string]tail)
		}
		p.tails[string(key)] = tail{p.number + 1, bytes.Clone(value)}
		p.tailBytes += len(value)
	}
	return before, known
}

// comesLast reports whether a key of the journal comes after all that there are, and notes it as the last one then.
// It is called for each key that a group with an undo record changes.
func (e *Engine) comesLast(key []byte) (bool, error) {
	if key[0] != store.SpaceJournal || len(key) < 3 {
		return false, nil
	}
	if err := e.findLast(key[1]); err != nil {
		return false, err
	}
	last := &e.publishing.last[key[1]]
	if bytes.Compare(key, *last) <= 0 {
		return false, nil
	}
	*last = append((*last)[:0], key...)
	return true, nil
}

// findLast looks for the last key of a keyspace of the journal, unless it is known.
func (e *Engine) findLast(space byte) error {
	last := &e.publishing.last[space]
	if len(*last) > 0 {
		return nil
	}
	prefix := []byte{store.SpaceJournal, space}
	it, err := e.db.NewIter(&crdb.IterOptions{LowerBound: prefix, UpperBound: store.After(prefix)})
	if err != nil {
		return err
	}
	*last = append(*last, prefix...)
	if it.Last() {
		*last = append((*last)[:0], it.Key()...)
	}
	if err := errors.Join(it.Error(), it.Close()); err != nil {
		*last = (*last)[:0]
		return err
	}
	return nil
}
