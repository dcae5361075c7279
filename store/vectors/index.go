package vectors

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"slices"
	"sync"

	"kernos/store"
)

const (
	packAt = 512  // rows that aren't packed; with more, a search packs them first
	deadAt = 1024 // deleted rows, from which on they are removed from the blocks
	packed = 8192 // rows that one batch packs
)

// An Index keeps vectors under ids that ascend from 1 on: a batch adds ids that are greater than those of all
// batches before it. So a changed vector gets a new id, and the old one is deleted. What isn't packed into blocks is what comes after
// the last packed id, retention deletes a range, and an index that another model fills has one position instead of a
// list of what is missing. It is safe for concurrent use.
type Index struct {
	s          store.Store
	prefix     []byte
	dimensions int
	cache      *Cache

	packing sync.Mutex
}

// NewIndex returns the index under a prefix. It reads nothing.
func NewIndex(s store.Store, prefix []byte, dimensions int, cache *Cache) *Index {
	return &Index{s: s, prefix: bytes.Clone(prefix), dimensions: dimensions, cache: cache}
}

func (x *Index) space(space byte) []byte {
	return append(append(make([]byte, 0, len(x.prefix)+9), x.prefix...), space)
}

func (x *Index) key(space byte, id uint64) []byte {
	return binary.BigEndian.AppendUint64(x.space(space), id)
}

func keyID(key []byte) uint64 { return binary.BigEndian.Uint64(key[len(key)-8:]) }

// Add stages a vector, which needn't have unit length. One that has no direction is near to
// nothing and is left out. Errors are 422: a number isn't finite, or the vector has another
// length than the index.
func (x *Index) Add(b *store.Batch, id uint64, vector []float32) error {
	if len(vector) != x.dimensions {
		return store.Errorf(422, nil, "The vector has %d numbers, and the index has vectors of %d", len(vector), x.dimensions)
	}
	row, err := encodeRow(vector)
	if err == nil && row != nil {
		b.Set(x.key(spaceRows, id), row)
	}
	return err
}

// Delete stages the end of an entry, which may be absent.
func (x *Index) Delete(b *store.Batch, id uint64) {
	b.Delete(x.key(spaceRows, id))
	b.Set(x.key(spaceDead, id), nil)
}

// DeleteBelow stages the end of all entries before an id, in three changes. Nothing may be added
// there afterwards.
func (x *Index) DeleteBelow(b *store.Batch, id uint64) {
	for _, space := range []byte{spaceRows, spaceDead} {
		b.DeleteRange(x.key(space, 0), x.key(space, id))
	}
	b.Set(x.space(spaceFloor), binary.BigEndian.AppendUint64(nil, id))
}

// Drop stages the end of the index.
func (x *Index) Drop(b *store.Batch) {
	b.DeleteRange(x.prefix, store.After(x.prefix))
}

// Count returns how many entries the index has, about: entries that were deleted a short while ago may be
// among them.
func (x *Index) Count() (int, error) {
	m, _, err := x.manifest(x.s)
	if err != nil {
		return 0, err
	}
	n := int(m.entries())
	for _, err := range x.s.Scan(x.added(m)) {
		if err != nil {
			return 0, err
		}
		n++
	}
	return n, nil
}

func (x *Index) manifest(r store.Reader) (*manifest, store.Revision, error) {
	e, err := r.Get(x.space(spaceManifest))
	if err != nil {
		return nil, 0, err
	}
	m, err := decodeManifest(e.Value)
	if err != nil {
		err = damaged(err, "The list of blocks of an index of vectors can't be read")
	}
	return m, e.Revision, err
}

func (x *Index) floor(r store.Reader) (uint64, error) {
	e, err := r.Get(x.space(spaceFloor))
	if err != nil || e.Revision == 0 {
		return 0, err
	}
	if len(e.Value) != 8 {
		return 0, damaged(nil, "The first id of an index of vectors can't be read")
	}
	return binary.BigEndian.Uint64(e.Value), nil
}

// added returns the range of the rows that aren't packed.
func (x *Index) added(m *manifest) store.Range {
	return store.Range{From: x.key(spaceRows, m.last+1), To: store.After(x.space(spaceRows))}
}

// ids returns the first ids of a space, or all if most is 0.
func (x *Index) ids(r store.Reader, space byte, most int) ([]uint64, error) {
	var ids []uint64
	prefix := x.space(space)
	for e, err := range r.Scan(store.Prefix(prefix)) {
		if err != nil {
			return nil, err
		}
		if len(e.Key) != len(prefix)+8 {
			return nil, damaged(nil, "A key of an index of vectors can't be read")
		}
		if ids = append(ids, keyID(e.Key)); len(ids) == most {
			break
		}
	}
	return ids, nil
}

// rows calls f with the rows of ids, which ascend; absent ones are left out. A row is valid until f returns.
func (x *Index) rows(r store.Snapshot, ids []uint64, f func(id uint64, row []byte)) error {
	size := len(x.prefix) + 9
	slab := make([]byte, 0, size*len(ids))
	keys := make([][]byte, len(ids))
	for i, id := range ids {
		slab = binary.BigEndian.AppendUint64(append(append(slab, x.prefix...), spaceRows), id)
		keys[i] = slab[i*size : (i+1)*size : (i+1)*size]
	}
	i := 0
	for e, err := range r.GetAll(keys) {
		if err != nil {
			return err
		}
		if e.Revision > 0 {
			if len(e.Value) != 4+x.dimensions {
				return damaged(nil, "Vector %d of an index can't be read", ids[i])
			}
			f(ids[i], e.Value)
		}
		i++
	}
	return nil
}

func (x *Index) block(r store.Reader, number uint64) (*block, error) {
	e, err := r.Get(x.key(spaceBlocks, number))
	if err != nil {
		return nil, err
	}
	k, err := decodeBlock(e.Value, x.dimensions)
	if err != nil {
		err = damaged(err, "Block %d of an index of vectors can't be read", number)
	}
	return k, err
}

// Pack moves the signs of new rows into blocks, and removes what was deleted from them. What is
// added while it works is packed the next time.
func (x *Index) Pack(ctx context.Context) error {
	x.packing.Lock()
	defer x.packing.Unlock()
	for {
		more, err := x.pack()
		switch {
		case errors.Is(err, store.ErrConflict): // another process has packed
		case err != nil || !more:
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
}

// pack packs some rows, and reports whether more are left.
func (x *Index) pack() (more bool, err error) {
	r, err := x.s.Snapshot()
	if err != nil {
		return false, err
	}
	defer func() { err = cmp.Or(err, r.Close()) }()
	m, revision, err := x.manifest(r)
	if err != nil {
		return false, err
	}
	floor, err := x.floor(r)
	if err != nil {
		return false, err
	}
	dead, err := x.ids(r, spaceDead, 16*deadAt)
	if err != nil {
		return false, err
	}
	var b store.Batch
	p := packer{x: x, r: r, b: &b, m: m, changed: make(map[uint64]*block)}
	if len(dead) >= deadAt {
		if err := p.remove(dead); err != nil {
			return false, err
		}
	}
	p.dropBelow(floor)
	more, err = p.append()
	if err != nil {
		return false, err
	}
	if b.Empty() {
		return false, nil
	}
	b.IfRevision(x.space(spaceManifest), revision)
	b.Set(x.space(spaceManifest), m.encode())
	commit, err := x.s.Apply(&b)
	if err != nil {
		return false, err
	}
	x.cache.packed(x, revision, commit.Revision, m, p.changed)
	return more || len(dead) == 16*deadAt, nil
}

// A packer changes blocks in one batch.
type packer struct {
	x       *Index
	r       store.Snapshot
	b       *store.Batch
	m       *manifest
	changed map[uint64]*block // changed blocks, by number
}

// get returns a block as it is in the batch.
func (p *packer) get(number uint64) (*block, error) {
	if k := p.changed[number]; k != nil {
		return k, nil
	}
	return p.x.block(p.r, number)
}

func (p *packer) set(e *extent, k *block) {
	e.first, e.last, e.count = k.ids[0], k.ids[len(k.ids)-1], uint64(len(k.ids))
	p.changed[e.number] = k
	p.b.Set(p.x.key(spaceBlocks, e.number), k.encode())
}

// remove takes deleted entries out of the blocks.
func (p *packer) remove(dead []uint64) error {
	per := words(p.x.dimensions)
	kept := p.m.blocks[:0]
	for _, e := range p.m.blocks {
		at, _ := slices.BinarySearch(dead, e.first)
		if at == len(dead) || dead[at] > e.last {
			kept = append(kept, e)
			continue
		}
		k, err := p.get(e.number)
		if err != nil {
			return err
		}
		left := &block{}
		for i, id := range k.ids {
			if _, gone := slices.BinarySearch(dead, id); !gone {
				left.ids = append(left.ids, id)
				left.signs = append(left.signs, k.signs[i*per:(i+1)*per]...)
			}
		}
		switch len(left.ids) {
		case len(k.ids):
			kept = append(kept, e)
		case 0:
			p.b.Delete(p.x.key(spaceBlocks, e.number))
		default:
			p.set(&e, left)
			kept = append(kept, e)
		}
	}
	p.m.blocks = kept
	for _, id := range dead {
		p.b.Delete(p.x.key(spaceDead, id))
	}
	return nil
}

// dropBelow deletes blocks whose entries are all before an id.
func (p *packer) dropBelow(floor uint64) {
	p.m.blocks = slices.DeleteFunc(p.m.blocks, func(e extent) bool {
		if e.last >= floor {
			return false
		}
		delete(p.changed, e.number)
		p.b.Delete(p.x.key(spaceBlocks, e.number))
		return true
	})
}

// append packs new rows into the last block, and into further ones, and reports whether more are left.
func (p *packer) append() (more bool, err error) {
	k := &block{}
	var e *extent // the extent of k
	if n := len(p.m.blocks); n > 0 && p.m.blocks[n-1].count < blockEntries {
		e = &p.m.blocks[n-1]
		last, err := p.get(e.number)
		if err != nil {
			return false, err
		}
		k.ids, k.signs = slices.Clone(last.ids), slices.Clone(last.signs)
	}
	n := 0
	var signs signer
	for row, err := range p.r.Scan(p.x.added(p.m)) {
		if err != nil {
			return false, err
		}
		if n == packed {
			more = true
			break
		}
		if len(row.Value) != 4+p.x.dimensions {
			return false, damaged(nil, "Vector %d of an index can't be read", keyID(row.Key))
		}
		if e != nil && len(k.ids) == blockEntries {
			p.set(e, k)
			e, k = nil, &block{}
		}
		if e == nil {
			p.m.blocks = append(p.m.blocks, extent{number: p.m.next})
			p.m.next++
			e = &p.m.blocks[len(p.m.blocks)-1]
		}
		k.ids = append(k.ids, keyID(row.Key))
		k.signs = signs.append(k.signs, row.Value)
		n++
	}
	if n > 0 {
		p.set(e, k)
		p.m.last = k.ids[len(k.ids)-1]
	}
	return more, nil
}
