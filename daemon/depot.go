package daemon

import (
	"context"
	"io"
	"io/fs"

	"kernos/store/blobs"
)

// objects is the object store of a cluster, as package jetstream has it.
type objects interface {
	Put(ctx context.Context, name string, r io.Reader) (int64, error)
	Get(ctx context.Context, name string, w io.Writer) error
	Has(ctx context.Context, name string) (size int64, found bool, err error)
}

// depot keeps copies of the blobs of an origin in the object store. It implements [blobs.Depot].
type depot struct {
	objects objects
	prefix  string
}

// newDepot returns the depot of an origin.
func (h Home) newDepot(o objects) blobs.Depot {
	return &depot{o, "blobs/" + h.Origin.Folder() + "/"}
}

// Put implements [blobs.Depot].
func (d *depot) Put(ctx context.Context, h blobs.Hash, r io.Reader) error {
	if _, found, err := d.objects.Has(ctx, d.prefix+h.String()); err != nil || found {
		return err
	}
	_, err := d.objects.Put(ctx, d.prefix+h.String(), r)
	return err
}

// Get implements [blobs.Depot].
func (d *depot) Get(ctx context.Context, h blobs.Hash, w io.Writer) error {
	if _, found, err := d.objects.Has(ctx, d.prefix+h.String()); err != nil {
		return err
	} else if !found {
		return fs.ErrNotExist
	}
	return d.objects.Get(ctx, d.prefix+h.String(), w)
}
