package vectors

import (
	"context"
	"slices"

	"kernos/store"
)

// Check reads all of the index and returns what is wrong with it, if anything:
//
//	V1  a row is new, or in exactly one block.
//	V2  what is in a block has a row, or was deleted.
//	V3  the signs in a block are those of the row.
func (x *Index) Check(ctx context.Context) (err error) {
	r, err := x.s.Snapshot()
	if err != nil {
		return err
	}
	defer func() {
		if closed := r.Close(); err == nil {
			err = closed
		}
	}()
	m, _, err := x.manifest(r)
	if err != nil {
		return err
	}
	f, err := x.filter(r, Query{To: 1<<64 - 1})
	if err != nil {
		return err
	}
	rows, err := x.ids(r, spaceRows, 0)
	if err != nil {
		return err
	}
	var held []uint64
	for _, e := range m.blocks {
		if err := ctx.Err(); err != nil {
			return err
		}
		k, err := x.block(r, e.number)
		if err != nil {
			return err
		}
		if n := uint64(len(k.ids)); e.first != k.ids[0] || e.last != k.ids[n-1] || e.count != n {
			return damaged(nil, "Block %d of an index of vectors isn't what the list of blocks says", e.number)
		}
		held = append(held, k.ids...)
		if err := x.checkSigns(r, k); err != nil {
			return err
		}
	}
	slices.Sort(held)
	for i, id := range held {
		if i > 0 && held[i-1] == id {
			return damaged(nil, "Vector %d of an index is packed twice", id)
		}
		if _, ok := slices.BinarySearch(rows, id); !ok && f.accepts(id) {
			return damaged(nil, "Vector %d of an index is missing", id)
		}
	}
	for _, id := range rows {
		if id > m.last {
			break // this row and later ones are new
		}
		if _, ok := slices.BinarySearch(held, id); !ok {
			return damaged(nil, "Vector %d of an index is in no block", id)
		}
	}
	return nil
}

// checkSigns compares the signs of a block with its rows.
func (x *Index) checkSigns(r store.Snapshot, k *block) error {
	per := words(x.dimensions)
	wrong := uint64(0)
	var signs signer
	err := x.rows(r, k.ids, func(id uint64, row []byte) {
		at, _ := slices.BinarySearch(k.ids, id)
		if !slices.Equal(signs.append(nil, row), k.signs[at*per:(at+1)*per]) {
			wrong = id
		}
	})
	if err == nil && wrong > 0 {
		err = damaged(nil, "Vector %d of an index has other signs in its block", wrong)
	}
	return err
}

// Check is [Index.Check] of all generations.
func (t *Texts) Check(ctx context.Context) error {
	s, err := t.state()
	for _, g := range s.Generations {
		if err == nil && g.Dimensions > 0 {
			err = t.index(g).Check(ctx)
		}
	}
	return err
}

// Check is [Texts.Check]; every key has its id, and every id its key.
func (k *Keyed) Check(ctx context.Context) error {
	for e, err := range k.o.Store.Scan(store.Prefix(k.key(spaceIDs, nil))) {
		if err != nil {
			return err
		}
		if n, err := k.numbered(k.o.Store, e.Value); err != nil || n.id != keyID(e.Key) {
			return damaged(err, "Text %d has the key of text %d", keyID(e.Key), n.id)
		}
	}
	for e, err := range k.o.Store.Scan(store.Prefix(k.key(spaceKeys, nil))) {
		if err != nil {
			return err
		}
		n, err := k.numbered(k.o.Store, e.Key[len(k.o.Prefix)+1:])
		if err != nil {
			return err
		}
		if e, err := k.o.Store.Get(k.idKey(n.id)); err != nil || e.Revision == 0 {
			return damaged(err, "Text %d has no key", n.id)
		}
	}
	return k.texts.Check(ctx)
}
