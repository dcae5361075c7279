package cluster

import (
	"context"
	"errors"
	"io"
	"io/fs"

	"kernos/store"
	"kernos/store/blobs"
)

// Objects is what [Blobs] needs of the object store beside a stream: see package jetstream.
type Objects interface {
	Put(ctx context.Context, name string, r io.Reader) (int64, error)
	Get(ctx context.Context, name string, w io.Writer) error
}

// Blobs returns the depot of an origin's blobs: each is an object under the origin's name and its own hash.
func Blobs(objects Objects, origin store.Origin) blobs.Depot {
	return &depot{objects, "blob/" + origin.Folder() + "/"}
}

type depot struct {
	objects Objects
	prefix  string
}

// Put implements [blobs.Depot].
func (d *depot) Put(ctx context.Context, h blobs.Hash, r io.Reader) error {
	_, err := d.objects.Put(ctx, d.prefix+h.String(), r)
	return err
}

// Get implements [blobs.Depot].
func (d *depot) Get(ctx context.Context, h blobs.Hash, w io.Writer) error {
	err := d.objects.Get(ctx, d.prefix+h.String(), w)
	if e, ok := errors.AsType[*store.Error](err); ok && e.Code == 404 {
		return errors.Join(fs.ErrNotExist, err)
	}
	return err
}
