package blobs

import (
	"errors"

	"kernos/store"
)

// The name of a blob is not a right to its content: a caller that doesn't see everything fetches
// the blobs that it holds. It holds what was put for it, and what was given to it.

// Hold adds to a batch that a holder may fetch a blob.
func Hold(b *store.Batch, h Hash, holder string) { b.Set(key(store.SpaceHolders, h, holder), nil) }

// Held reports whether a holder may fetch a blob.
func Held(r store.Reader, h Hash, holder string) (bool, error) {
	e, err := r.Get(key(store.SpaceHolders, h, holder))
	return e.Revision > 0, err
}

// Release forgets the holders of blobs that [Dir.Collect] has removed, unless such a blob has
// been put again: its file is there before its holder is.
func (d *Dir) Release(s store.Store, removed []Hash) error {
	for _, h := range removed {
		var b store.Batch
		for e, err := range s.Scan(store.Prefix(key(store.SpaceHolders, h, ""))) {
			if err != nil {
				return err
			}
			key := append([]byte(nil), e.Key...)
			b.IfRevision(key, e.Revision)
			b.Delete(key)
		}
		if f, err := d.Open(h); err == nil {
			_ = f.Close()
			continue
		}
		if b.Empty() {
			continue
		}
		if _, err := s.Apply(&b); err != nil && !errors.Is(err, store.ErrConflict) {
			return err
		}
	}
	return nil
}
