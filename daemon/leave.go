package daemon

import (
	"errors"
	"io/fs"
	"os"

	"kernos/store/replicated"
)

// LeaveCluster makes the copy of a home the state of a home of one machine, without what no majority of the servers has
// accepted, and removes the streams of the server inside. No process may have the home open. The error wraps
// [store.ErrInUse] if one has.
func (h Home) LeaveCluster() error {
	if _, err := os.Stat(h.Store()); err == nil {
		if err := replicated.Leave(h.Store(), nil); err != nil {
			return err
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return os.RemoveAll(h.servers())
}
