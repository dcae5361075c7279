package vfs

import (
	"context"
	"io/fs"
	"iter"
	"maps"
	"slices"
)

// A Compute makes the content of a file when it is read.
type Compute func(ctx context.Context) ([]byte, error)

// computed is a driver whose files are computed.
type computed struct {
	files func() map[string]Compute
}

// Proc returns the driver of files that are computed when they are read: what files returns
// at that moment, by names that may have slashes in them.
func Proc(files func() map[string]Compute) Driver { return &computed{files} }

func (c *computed) Can() Can { return Can{Read: true} }

func (c *computed) String() string { return "computed" }

func (c *computed) names() flat { return slices.Collect(maps.Keys(c.files())) }

func (c *computed) Read(ctx context.Context, name string) (File, error) {
	compute, ok := c.files()[name]
	if !ok {
		if c.names().directory(name) {
			return File{}, errDirectory
		}
		return File{}, fs.ErrNotExist
	}
	data, err := compute(ctx)
	return File{Data: data, Version: digest(data)}, err
}

// Stat computes nothing: how large a file will be is not known.
func (c *computed) Stat(_ context.Context, name string) (Info, error) {
	names := c.names()
	switch {
	case names.directory(name):
		return Info{Dir: true}, nil
	case slices.Contains(names, name):
		return Info{Size: -1}, nil
	}
	return Info{}, fs.ErrNotExist
}

// List implements [Lister].
func (c *computed) List(ctx context.Context, name, from string) iter.Seq2[Info, error] {
	return listFlat(ctx, c, c.names(), name, from)
}
