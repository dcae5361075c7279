package daemon

import (
	"cmp"
	"context"
	"io"
	"io/fs"
	"slices"

	"kernos/kernel"
	"kernos/kernel/principal"
	"kernos/message"
	"kernos/store"
	"kernos/store/blobs"
)

// Put implements [kernel.Blobs].
func (s *state) Put(ctx context.Context, data []byte) (message.BlobPointer, error) {
	blob, err := s.blobs.Put(data)
	if err == nil {
		err = s.hold(ctx, blob.Hash)
	}
	return blob.Pointer(), err
}

// PutReader keeps what a reader gives, for the caller of ctx; see [blobs.Dir.PutReader].
func (s *state) PutReader(ctx context.Context, r io.Reader, limit int64) (blobs.Blob, error) {
	blob, err := s.blobs.PutReader(r, limit)
	if err == nil {
		err = s.hold(ctx, blob.Hash)
	}
	return blob, err
}

// hold lets the callers that ctx acts for, and answers, fetch a blob that was put for them.
func (s *state) hold(ctx context.Context, h blobs.Hash) error {
	return s.give(ctx, []blobs.Hash{h}, kernel.PrincipalOf(ctx), kernel.ReceiverOf(ctx))
}

// give lets principals fetch blobs. Those that see everything need no leave.
func (s *state) give(ctx context.Context, hashes []blobs.Hash, to ...*principal.Principal) error {
	var b store.Batch
	for _, p := range to {
		if p.SeesAll() {
			continue
		}
		for _, h := range hashes {
			held, err := blobs.Held(s.store, h, string(p.ID()))
			if err != nil {
				return err
			}
			if !held {
				blobs.Hold(&b, h, string(p.ID()))
			}
		}
	}
	if b.Empty() {
		return nil
	}
	commit, err := s.store.Apply(&b)
	if err != nil {
		return err
	}
	return commit.Wait(ctx)
}

// reaches reports whether a principal may fetch a blob: it sees everything, the blob was put for
// it or given to it, or a value of the memory that it may read points to the blob.
func (s *state) reaches(p *principal.Principal, h blobs.Hash) (bool, error) {
	if p.SeesAll() {
		return true, nil
	}
	if held, err := blobs.Held(s.store, h, string(p.ID())); held || err != nil {
		return held, err
	}
	return s.memory.PointsTo(p, h)
}

// callerReaches is reaches for the caller of ctx.
func (s *state) callerReaches(ctx context.Context, h blobs.Hash) (bool, error) {
	return s.reaches(kernel.PrincipalOf(ctx), h)
}

// Share implements [kernel.Blobs].
func (s *state) Share(ctx context.Context, data, asked []byte, from, to *principal.Principal) error {
	mentions := s.blobs.Mentions(data)
	if len(mentions) == 0 {
		return nil
	}
	own := s.blobs.Mentions(asked)
	var given []blobs.Hash
	for _, h := range mentions {
		if slices.Contains(own, h) {
			continue
		}
		reached, err := s.reaches(from, h)
		if err != nil {
			return err
		}
		if reached {
			given = append(given, h)
		}
	}
	return s.give(ctx, given, to)
}

// Beginning implements [kernel.Blobs].
func (s *state) Beginning(ctx context.Context, p message.BlobPointer, n int) (first []byte, size int64, err error) {
	found := s.blobs.Mentions(p.Append(nil))
	if len(found) != 1 {
		return nil, 0, fs.ErrNotExist
	}
	if reached, err := s.callerReaches(ctx, found[0]); err != nil || !reached {
		return nil, 0, cmp.Or(err, fs.ErrPermission)
	}
	f, err := s.blobs.Open(found[0])
	if err != nil {
		return nil, 0, err
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return nil, 0, err
	}
	first, err = io.ReadAll(io.LimitReader(f, int64(n)))
	return first, info.Size(), err
}

// Refer implements [kernel.BlobOwners].
func (s *state) Refer(b *store.Batch, data, owner []byte) {
	for _, h := range s.blobs.Mentions(data) {
		blobs.Refer(b, h, owner)
	}
}

// Unrefer implements [kernel.BlobOwners].
func (s *state) Unrefer(b *store.Batch, data, owner []byte) {
	for _, h := range s.blobs.Mentions(data) {
		blobs.Unrefer(b, h, owner)
	}
}
