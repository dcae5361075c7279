package jetstream

import (
	"context"
	"io"
)

// Objects is the object store beside a stream: bytes under names, in pieces, with their digest.
type Objects struct{}

// Put stores what r has under a name that was free, or had the same bytes, and returns once a majority of the servers
// have all of it. It returns the number of bytes.
func (o *Objects) Put(ctx context.Context, name string, r io.Reader) (int64, error) { panic("TODO") }

// Get writes the object to w. An error means that what was written is incomplete, or isn't what was stored.
func (o *Objects) Get(ctx context.Context, name string, w io.Writer) error { panic("TODO") }

// Has reports whether there is an object of this name, and how large it is.
func (o *Objects) Has(ctx context.Context, name string) (size int64, found bool, err error) {
	panic("TODO")
}

// Names calls each with the names that begin with a prefix, in no order, until each returns false.
func (o *Objects) Names(ctx context.Context, prefix string, each func(name string, size int64) bool) error {
	panic("TODO")
}

// Delete removes an object. One that doesn't exist isn't an error.
func (o *Objects) Delete(ctx context.Context, name string) error { panic("TODO") }
