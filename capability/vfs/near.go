package vfs

import (
	"context"
	"errors"
	"path"

	"kernos/internal/nearest"
	"kernos/message"
)

// maxNear is how many files are compared with one that isn't there.
const maxNear = 200

// suggest adds to the error for a file that isn't there which near ones its directory has, of those that the caller
// reaches.
func (t *Tree) suggest(ctx context.Context, uri string, err error) error {
	e, ok := errors.AsType[*message.Error](err)
	at, bad := t.locate(uri)
	if !ok || e.Code != 404 || bad != nil {
		return err
	}
	folder, name := path.Split(at.path)
	uris := make(map[string]string)
	var names []string
	for info, err := range t.walk(ctx, path.Clean("/" + folder)[1:], "", false) {
		if err != nil || len(names) == maxNear {
			break // the error about the file is the one that counts
		}
		names, uris[info.Name] = append(names, info.Name), info.URI
	}
	near := nearest.Names(name, names)
	if len(near) == 0 {
		return err
	}
	for i := range near {
		near[i] = uris[near[i]]
	}
	with := *e
	with.Message += " (" + nearest.Ask(near) + ")"
	return &with
}
