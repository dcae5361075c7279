package dirfs

import (
	"cmp"
	"context"
	"errors"
	"os"
	"path"
	"path/filepath"

	"kernos/capability/vfs"
	"kernos/internal/fence"
)

// lands fails if links have led from a name to what the caller doesn't reach: f is what the name has opened.
func (o *opened) lands(ctx context.Context, f *os.File, name string) error {
	admit := vfs.Landing(ctx)
	if admit == nil || name == "" || name == "." {
		return nil
	}
	top, err := fence.Place(o.dir, o.path)
	if err != nil {
		return err
	}
	at, err := fence.Find(f, filepath.Join(o.path, local(name)))
	if err != nil {
		return err
	}
	inner, err := filepath.Rel(top, at)
	if err != nil || !filepath.IsLocal(inner) {
		return fence.ErrMoved
	}
	switch inner = filepath.ToSlash(inner); inner {
	case name:
		return nil
	case ".":
		inner = ""
	}
	return admit(inner)
}

// refused returns the error for a name with which something has failed. Where links lead to what the caller doesn't
// reach, the error is the same for whatever is there, also for nothing.
func (o *opened) refused(ctx context.Context, name string, err error) error {
	if vfs.Landing(ctx) == nil {
		return err
	}
	for at := name; at != "." && at != ""; at = path.Dir(at) {
		if f, _, failed := o.inspect(at); failed == nil {
			return cmp.Or(errors.Join(o.lands(ctx, f, at), f.Close()), err)
		}
	}
	return err
}
