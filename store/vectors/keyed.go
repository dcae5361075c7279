package vectors

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"iter"
	"math"
	"slices"
	"sync"

	"kernos/internal/embed"
	"kernos/store"
)

// KeyedOptions of [Keyed].
type KeyedOptions struct {
	Store  store.Store
	Prefix []byte
	Cache  *Cache
	Models []embed.Model // see [Options]

	// Text returns what a key stands for now, or false if the key is gone. The text is embedded without its ID.
	Text func(key []byte) (Text, bool, error)
}

// Keyed is [Texts] of an owner that has keys, whose texts change. The owner marks a key in each batch that changes or
// deletes what the key stands for; [Keyed.Grow] does the rest. A key that is gone can be found until then: a caller looks at what
// it has before it shows a hit.
type Keyed struct {
	o     KeyedOptions
	texts *Texts

	numbering sync.Mutex
}

// The keys, after the prefix.
const (
	spaceMarks = 't' // key → nothing: it has changed
	spaceKeys  = 'k' // key → its id, and a hash of its text
	spaceIDs   = 'i' // id → key
	spaceNext  = 'n' // → the id of the next text
	spaceTexts = 'T' // the keys of Texts
)

// NewKeyed returns the texts under a prefix. It reads nothing.
func NewKeyed(o KeyedOptions) *Keyed {
	k := &Keyed{o: o}
	k.texts = NewTexts(Options{Store: o.Store, Prefix: k.key(spaceTexts, nil), Source: k.source, Cache: o.Cache, Models: o.Models})
	return k
}

func (k *Keyed) key(space byte, rest []byte) []byte {
	return append(append(append(make([]byte, 0, len(k.o.Prefix)+1+len(rest)), k.o.Prefix...), space), rest...)
}

func (k *Keyed) idKey(id uint64) []byte {
	return binary.BigEndian.AppendUint64(k.key(spaceIDs, nil), id)
}

// Mark stages that a key has changed or is gone.
func (k *Keyed) Mark(b *store.Batch, key []byte) { b.Set(k.key(spaceMarks, key), nil) }

// Grow embeds some texts, and reports whether more is to be done.
func (k *Keyed) Grow(ctx context.Context) (more bool, err error) {
	if more, err = k.number(); err != nil || more {
		return more, err
	}
	return k.texts.Grow(ctx)
}

// CatchUp embeds what was marked when it was called.
func (k *Keyed) CatchUp(ctx context.Context) error {
	for {
		if more, err := k.number(); err != nil {
			return err
		} else if !more {
			return k.texts.CatchUp(ctx)
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
}

// source yields the texts of the ids after one.
func (k *Keyed) source(after uint64) iter.Seq2[Text, error] {
	return func(yield func(Text, error) bool) {
		for e, err := range k.o.Store.Scan(store.Range{From: k.idKey(after + 1), To: store.After(k.key(spaceIDs, nil))}) {
			var text Text
			if err == nil {
				text, _, err = k.o.Text(e.Value) // a text that is gone is marked
				text.ID = keyID(e.Key)
			}
			if !yield(text, err) || err != nil {
				return
			}
		}
	}
}

// numbered is what is kept of a key: its id, and a hash of its text.
type numbered struct {
	id   uint64
	hash [8]byte
}

func (k *Keyed) numbered(r store.Reader, key []byte) (n numbered, err error) {
	e, err := r.Get(k.key(spaceKeys, key))
	if err == nil && e.Revision > 0 {
		if len(e.Value) != 16 {
			return n, damaged(nil, "The number of a text can't be read")
		}
		n.id, n.hash = binary.BigEndian.Uint64(e.Value), [8]byte(e.Value[8:])
	}
	return n, err
}

func (t *Text) hash() [8]byte {
	h := sha256.New()
	h.Write([]byte(t.Text))
	for _, v := range t.Vector {
		h.Write(binary.LittleEndian.AppendUint32(nil, math.Float32bits(v)))
	}
	return [8]byte(h.Sum(nil))
}

// number gives ids to some marked keys, and reports whether more are left.
func (k *Keyed) number() (more bool, err error) {
	k.numbering.Lock()
	defer k.numbering.Unlock()
	next, err := k.o.Store.Get(k.key(spaceNext, nil))
	if err != nil {
		return false, err
	}
	first := uint64(1)
	if len(next.Value) == 8 {
		first = binary.BigEndian.Uint64(next.Value)
	}
	id := first
	var b store.Batch
	prefix := k.key(spaceMarks, nil)
	marks := 0
	for e, err := range k.o.Store.Scan(store.Prefix(prefix)) {
		if err != nil {
			return false, err
		}
		if marks++; marks > growTexts {
			more = true
			break
		}
		key := bytes.Clone(e.Key[len(prefix):])
		if id, err = k.renumber(&b, key, id); err != nil {
			return false, err
		}
		mark := k.key(spaceMarks, key)
		b.IfRevision(mark, e.Revision) // another mark may mean another text
		b.Delete(mark)
	}
	if b.Empty() {
		return more, nil
	}
	b.IfRevision(k.key(spaceNext, nil), next.Revision)
	if id > first {
		b.Set(k.key(spaceNext, nil), binary.BigEndian.AppendUint64(nil, id))
	}
	_, err = k.o.Store.Apply(&b)
	if errors.Is(err, store.ErrConflict) {
		return true, nil
	}
	return more, err
}

// renumber gives a key the id if its text has changed, and returns the next id.
func (k *Keyed) renumber(b *store.Batch, key []byte, id uint64) (uint64, error) {
	text, exists, err := k.o.Text(key)
	if err != nil {
		return 0, err
	}
	old, err := k.numbered(k.o.Store, key)
	if err != nil || exists && old.id > 0 && old.hash == text.hash() {
		return id, err
	}
	if old.id > 0 {
		k.texts.delete(b, old.id)
		b.Delete(k.idKey(old.id))
		b.Delete(k.key(spaceKeys, key))
	}
	if !exists {
		return id, nil
	}
	hash := text.hash()
	b.Set(k.idKey(id), key)
	b.Set(k.key(spaceKeys, key), append(binary.BigEndian.AppendUint64(nil, id), hash[:]...))
	return id + 1, nil
}

// A KeyQuery is what a search of keys looks for. Its filters apply before the best hits are picked.
type KeyQuery struct {
	Text   string
	Vector []float32 // replaces Text
	Limit  int
	Keys   [][]byte              // the only keys to look at; nil means all
	Accept func(key []byte) bool // nil accepts all; see [Query]
}

// A KeyHit is a key near a query.
type KeyHit struct {
	Key   []byte
	Score float32
}

// Search returns the nearest keys, best first.
func (k *Keyed) Search(ctx context.Context, q KeyQuery) ([]KeyHit, error) {
	n := Query{Vector: q.Vector, Limit: q.Limit}
	if q.Keys != nil {
		n.Among = make([]uint64, 0, len(q.Keys))
		for _, key := range q.Keys {
			known, err := k.numbered(k.o.Store, key)
			if err != nil {
				return nil, err
			}
			if known.id > 0 {
				n.Among = append(n.Among, known.id)
			}
		}
		slices.Sort(n.Among)
	}
	var failed error
	if q.Accept != nil {
		n.Accept = func(id uint64) bool {
			e, err := k.o.Store.Get(k.idKey(id))
			if err != nil {
				failed = err
			}
			return failed == nil && e.Revision > 0 && q.Accept(e.Value)
		}
	}
	found, err := k.texts.Search(ctx, q.Text, n)
	if err != nil || failed != nil {
		return nil, errors.Join(err, failed)
	}
	hits := make([]KeyHit, 0, len(found))
	for _, h := range found {
		e, err := k.o.Store.Get(k.idKey(h.ID))
		if err != nil {
			return nil, err
		}
		if e.Revision > 0 { // the value may have been deleted meanwhile
			hits = append(hits, KeyHit{e.Value, h.Score})
		}
	}
	return hits, nil
}

// Count returns how many keys are embedded, about.
func (k *Keyed) Count() (int, error) {
	p, err := k.texts.Progress()
	return p.Entries, err
}

// Progress returns how far the texts are embedded.
func (k *Keyed) Progress() (Progress, error) {
	p, err := k.texts.Progress()
	if err != nil {
		return p, err
	}
	for _, err := range k.o.Store.Scan(store.Prefix(k.key(spaceMarks, nil))) {
		if p.Pending++; err != nil {
			return p, err
		}
	}
	return p, nil
}
