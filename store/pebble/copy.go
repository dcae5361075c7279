package pebble

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"iter"

	crdb "github.com/cockroachdb/pebble/v2"

	"kernos/store"
)

// checkCopy refuses to open a copy as a store on its own, and the other way round what would change a copy alone.
func (e *Engine) checkCopy() error {
	_, there, err := readPosition(e.dir, e.db)
	if err != nil || !there {
		return e.readError(err)
	}
	if !e.opts.Copy {
		return store.Errorf(503, nil, "The store in %s is a copy of what a cluster has: "+
			"start kernos as a node of the cluster, or end the membership with `kernos cluster leave`", e.dir)
	}
	version, kernos, err := readSchema(e.dir, e.db)
	if err == nil && version < e.opts.schema.version {
		cause := fmt.Errorf("it has schema version %d, this kernos knows %d", version, e.opts.schema.version)
		return store.Errorf(503, cause, "The store in %s is a copy of what a cluster has, and of an older form; "+
			"a copy can't be brought up to date: start the cluster with kernos %s", e.dir, kernos)
	}
	return e.readError(err)
}

// Position returns how far a copy is, and whether the store is one: it becomes one with the first entry of the log.
func (e *Engine) Position() (p Position, there bool, err error) {
	e.life.RLock()
	defer e.life.RUnlock()
	if e.dead {
		return p, false, store.ErrClosed
	}
	p, there, err = readPosition(e.dir, e.db)
	return p, there, e.readError(err)
}

// Empty reports whether nothing was ever stored.
func (e *Engine) Empty() (bool, error) {
	for _, err := range e.Scan(store.Range{}) {
		return false, err
	}
	e.life.RLock()
	defer e.life.RUnlock()
	if e.dead {
		return false, store.ErrClosed
	}
	revision, err := readOwn(e.db, revisionKey)
	return revision == nil, e.readError(err)
}

// Rewind takes back the tail of a copy: the groups that are not known to be accepted. Nothing may have been read or
// followed yet. It returns how many groups there were.
func (e *Engine) Rewind() (groups uint64, err error) {
	err = e.alone(func() error {
		at, there, err := readPosition(e.dir, e.db)
		if err != nil || !there || at.Number == at.Accepted {
			return err
		}
		groups = at.Number - at.Accepted
		b := e.db.NewBatch()
		defer func() { _ = b.Close() }()
		for ; at.Number > at.Accepted; at.Number-- {
			if err := e.takeBack(b, at.Number); err != nil {
				return err
			}
		}
		if err := b.Set([]byte(positionKey), at.encode(nil), nil); err != nil {
			return err
		}
		return b.Commit(crdb.Sync)
	})
	return groups, err
}

// takeBack puts what a group has replaced into a batch.
func (e *Engine) takeBack(b *crdb.Batch, number uint64) error {
	key := undoKey(number)
	record, err := readOwn(e.db, string(key))
	if err != nil {
		return err
	}
	if record == nil {
		return damage(e.dir, "", fmt.Errorf("there is no record that takes group %d back", number))
	}
	all, err := parseUndo(record)
	if err != nil {
		return damage(e.dir, "", err)
	}
	for _, r := range all {
		if r.there {
			err = b.Set(r.key, r.value, nil)
		} else {
			err = b.Delete(r.key, nil)
		}
		if err != nil {
			return err
		}
	}
	return b.SingleDelete(key, nil)
}

// alone calls f while no batch is applied and the store isn't closed.
func (e *Engine) alone(f func() error) error {
	c := e.health.now.Load()
	if c.err != nil {
		return e.refusal(c.err)
	}
	if err := e.enter(e.applyLock, c); err != nil {
		return err
	}
	defer func() { <-e.applyLock }()
	return e.readError(f())
}

// ErrUnlinked is the error of groups that don't follow what a copy has.
var ErrUnlinked = errors.New("a group doesn't follow the one before it")

// Follow applies groups that were accepted, in one step with the position after them, which it returns with its link.
// It doesn't wait for the disk, since the log has them. An error means that nothing was applied: [ErrUnlinked],
// ErrBody, or one that may go away.
func (e *Engine) Follow(bodies [][]byte, at Position) (Position, error) {
	err := e.alone(func() error {
		before, _, err := readPosition(e.dir, e.db)
		if err != nil {
			return err
		}
		at.Link = before.Link
		b := e.db.NewBatch()
		defer func() { _ = b.Close() }()
		for i, body := range bodies {
			err := e.unpack(b, body, &at)
			if _, known := errors.AsType[*store.Error](err); errors.Is(err, ErrBody) && !known {
				number := at.Number - uint64(len(bodies)-i) + 1
				return store.Errorf(500, err, "Group %d of the cluster's log can't be read; nothing was changed in %s",
					number, e.dir)
			}
			if err != nil {
				return err
			}
		}
		if err := b.Set([]byte(positionKey), at.encode(nil), nil); err != nil {
			return err
		}
		e.memtable.used.Add(int64(b.Len()) + perEntry*int64(b.Count()))
		return b.Commit(crdb.NoSync)
	})
	return at, err
}

// unpack adds the changes of a body to a batch, if the body follows the one at a position.
func (e *Engine) unpack(b *crdb.Batch, body []byte, at *Position) error {
	form, link, changes, err := parseHead(e.opts.schema.version, body)
	if err != nil {
		return err
	}
	if begins := form == foundForm; begins && at.Epoch > 0 || !begins && link != at.Link {
		return ErrUnlinked
	}
	at.Link = Link(body)
	return parseChanges(changes, func(kind byte, key, value []byte) error {
		switch kind {
		case kindSet:
			return b.Set(key, value, nil)
		case kindDelete:
			return b.Delete(key, nil)
		}
		return b.DeleteRange(key, value, nil)
	})
}

// Lead begins an epoch: from here on the engine is the store of the origin's owner. The copy has no tail.
func (e *Engine) Lead(to Publisher) error {
	return e.alone(func() (err error) {
		at, there, err := readPosition(e.dir, e.db)
		if err == nil && (!there || at.Number != at.Accepted) {
			err = fmt.Errorf("the copy in %s is not at the beginning of an epoch", e.dir)
		}
		if err == nil {
			e.lease, err = readLease(e.dir, e.db)
		}
		e.revision = e.lease
		e.publishing = &publishing{to: to, at: at, number: at.Number, link: at.Link}
		return err
	})
}

// Mark takes a snapshot of an owner's store, and calls at with the number of the last group in it, before there is
// another one.
func (e *Engine) Mark(at func(number uint64)) (snapshot store.Snapshot, err error) {
	err = e.alone(func() (err error) {
		e.flush()
		snapshot, err = e.Snapshot()
		if err == nil {
			at(e.publishing.number)
		}
		return err
	})
	return snapshot, err
}

// Suspend makes the engine refuse batches, and fails what is pending, until it is called with nil.
func (e *Engine) Suspend(cause error) { e.health.update(func() { e.health.suspended = cause }) }

// Settle writes down that everything was accepted, if so and if no batch is being applied. Without it, only the next
// group would have that with it.
func (e *Engine) Settle() error {
	select {
	case e.applyLock <- struct{}{}:
	default:
		return nil
	}
	e.writing.Add(1) // the store isn't closed meanwhile
	defer e.writing.Done()
	e.flushing.Lock()
	b, err := e.settle()
	e.flushing.Unlock()
	<-e.applyLock
	return e.settled(b, err)
}

// settleLast is Settle for a store that is being closed.
func (e *Engine) settleLast() {
	if e.publishing == nil || e.disk.isFrozen() {
		return
	}
	if err := e.settled(e.settle()); err != nil {
		e.opts.Log.Warn("the position of a copy can't be written; the copy follows from an earlier one",
			"dir", e.dir, "error", err)
	}
}

// settle gives Pebble the position if everything was accepted, in a batch that is nil otherwise.
func (e *Engine) settle() (*crdb.Batch, error) {
	p := e.publishing
	b := e.db.NewBatch()
	n := p.advance(b)
	if p.at.Accepted != p.number {
		return nil, b.Close()
	}
	p.at.Number = p.number
	p.stored = p.at.encode(p.stored)
	err := b.Set([]byte(positionKey), p.stored, nil)
	if err == nil {
		err = e.db.ApplyNoSyncWait(b, crdb.Sync)
	}
	if err != nil {
		return nil, errors.Join(err, b.Close())
	}
	p.sent = p.sent[:copy(p.sent, p.sent[n:])]
	return b, nil
}

// settled waits until the position is on the disk.
func (e *Engine) settled(b *crdb.Batch, err error) error {
	if b != nil && err == nil {
		err = errors.Join(b.SyncWait(), b.Close())
	}
	return e.readError(err)
}

// Place makes a copy of a store whose content is in the log, or gives a copy another position.
func (e *Engine) Place(at Position) error {
	return e.alone(func() error { return e.db.Set([]byte(positionKey), at.encode(nil), crdb.Sync) })
}

// Leave makes a store on its own of a copy without a tail.
func (e *Engine) Leave() error {
	return e.alone(func() error { return e.db.Delete([]byte(positionKey), crdb.Sync) })
}

// Bodies goes through everything in the store as bodies of groups, of about a size. The first one deletes everything,
// so that they make the same store whatever was there.
func (e *Engine) Bodies(size int) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		version := e.opts.schema.version
		s, err := e.Snapshot()
		if err != nil {
			yield(nil, err)
			return
		}
		defer func() { _ = s.Close() }() // closing a snapshot can't fail
		lease, err := s.(*snapshot).lease()
		if err != nil {
			yield(nil, err)
			return
		}
		body := appendDeleteRange(newBody(foundForm, version, 0, size), []byte{1}, afterAll[:])
		if lease != nil {
			body = appendSet(body, []byte(revisionKey), lease)
		}
		var value []byte
		for entry, err := range s.Scan(store.Range{}) {
			if err != nil {
				yield(nil, err)
				return
			}
			value = append(binary.AppendUvarint(value[:0], uint64(entry.Revision)), entry.Value...)
			body = appendSet(body, entry.Key, value)
			if len(body) >= size {
				if !yield(body, nil) {
					return
				}
				body = newBody(bodyForm, version, Link(body), size)
			}
		}
		yield(body, nil)
	}
}

// afterAll comes after every key.
var afterAll = func() (key [64]byte) {
	for i := range key {
		key[i] = 0xFF
	}
	return key
}()

// lease returns the stored counter of revisions, or nil.
func (s *snapshot) lease() (value []byte, err error) {
	s.e.life.RLock()
	defer s.e.life.RUnlock()
	err = s.use(func(from source) error {
		stored, closer, err := from.Get([]byte(revisionKey))
		if errors.Is(err, crdb.ErrNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		value = append([]byte{}, stored...)
		return closer.Close()
	})
	return value, s.e.readError(err)
}

// Sum returns a checksum of everything in a snapshot of an engine that copies have in common.
func Sum(s store.Snapshot) (string, error) {
	own, ok := s.(*snapshot)
	if !ok {
		return "", errors.New("a snapshot of another engine has no checksum")
	}
	lease, err := own.lease()
	if err != nil {
		return "", err
	}
	sum := sha256.New()
	sumText(sum, lease)
	for entry, err := range own.Scan(store.Range{}) {
		if err != nil {
			return "", err
		}
		sumText(sum, entry.Key)
		sumText(sum, entry.Value)
		sumNumber(sum, uint64(entry.Revision))
	}
	return hex.EncodeToString(sum.Sum(nil)[:16]), nil
}

func sumText(sum hash.Hash, text []byte) {
	sumNumber(sum, uint64(len(text)))
	_, _ = sum.Write(text) // a hash takes everything
}

func sumNumber(sum hash.Hash, n uint64) {
	var number [8]byte
	binary.BigEndian.PutUint64(number[:], n)
	_, _ = sum.Write(number[:])
}
