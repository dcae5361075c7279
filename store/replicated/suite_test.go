package replicated_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"kernos/store"
	"kernos/store/pebble"
	"kernos/store/replicated"
	"kernos/store/replicated/logtest"
	"kernos/store/storetest"
)

// TestEngine runs the suite of all engines with a log in a file next to the copy. Whatever fails or is lost around
// the copy, the log has what it had accepted.
func TestEngine(t *testing.T) {
	storetest.Run(t, storetest.Engine{
		Open: func(dir string) (store.Store, error) {
			if err := os.MkdirAll(dir, 0o700); err != nil {
				return nil, err
			}
			return own(nil, filepath.Join(dir, "copy"), vfs.Default, filepath.Join(dir, "log"))
		},
		OpenFS:  func(fs vfs.FS, dir string) (store.Store, error) { return own(fs, dir, vfs.Root(fs), "log") },
		Variant: true,
	})
}

// A node is an owner with all that is open for it.
type node struct {
	*replicated.Owner
	copy *replicated.Copy
	log  *logtest.Log
	once sync.Once
	err  error
}

func own(fs vfs.FS, dir string, logFS vfs.FS, logPath string) (store.Store, error) {
	link := logtest.New().Link()
	c, err := replicated.Open(dir, link, &replicated.Options{Engine: &pebble.Options{FS: fs}})
	if err != nil {
		return nil, err
	}
	n := &node{copy: c}
	if n.log, err = logtest.Open(logFS, logPath); err != nil { // now no other node in this directory has it open
		return nil, errors.Join(err, c.Close())
	}
	link.Log = n.log
	last, err := n.log.Last(context.Background())
	if err == nil {
		n.Owner, err = c.Own(context.Background(), last.Epoch+1, new(logtest.Lease))
	}
	if err != nil {
		return nil, errors.Join(err, c.Close(), n.log.Close())
	}
	return n, nil
}

func (n *node) Close() error {
	n.once.Do(func() { n.err = errors.Join(n.Owner.Close(), n.copy.Close(), n.log.Close()) })
	return n.err
}
