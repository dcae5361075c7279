package memory

import (
	"context"

	"kernos/kernel/principal"
	"kernos/store"
	"kernos/store/blobs"
)

// A value that points to a blob lets all who may read the value fetch the blob. So a value refers
// only to blobs that its writer could fetch: to know the name of a blob is not enough.

// reached returns those of some blobs that the caller of ctx may have.
func (m *Memory) reached(ctx context.Context, hashes []blobs.Hash) ([]blobs.Hash, error) {
	if m.opts.Reaches == nil {
		return hashes, nil
	}
	var reached []blobs.Hash
	for _, h := range hashes {
		ok, err := m.opts.Reaches(ctx, h)
		if err != nil {
			return nil, err
		}
		if ok {
			reached = append(reached, h)
		}
	}
	return reached, nil
}

// PointsTo reports whether a value that a principal may read is kept in a blob, or points to it.
func (m *Memory) PointsTo(p *principal.Principal, h blobs.Hash) (bool, error) {
	if p.May(get.Target()) != nil {
		return false, nil
	}
	above := []byte{store.SpaceMemory, former}
	if len(p.KeyPrefixes()) == 0 {
		return blobs.ReferredBelow(m.store, h, above)
	}
	for _, prefix := range p.KeyPrefixes() {
		for _, end := range []byte{0, '/'} { // the key itself, and those below it
			referred, err := blobs.ReferredBelow(m.store, h, append(append(above[:2:2], prefix...), end))
			if referred || err != nil {
				return referred, err
			}
		}
	}
	return false, nil
}
