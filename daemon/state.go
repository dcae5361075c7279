package daemon

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"kernos/capability/crypto"
	"kernos/capability/memory"
	"kernos/capability/vfs"
	"kernos/capability/vfs/kernelfs"
	"kernos/internal/backoff"
	"kernos/internal/embed"
	"kernos/internal/ranked"
	"kernos/journal"
	"kernos/kernel"
	"kernos/message"
	"kernos/store"
	"kernos/store/blobs"
	"kernos/store/vectors"
)

// state is what one process has of a home, and of the world around it: the store of an origin
// and what stands on it, the keys, the tree of files and the client of outgoing requests.
// Nothing is opened or made before it is needed.
type state struct {
	home     Home
	private  []string // directories of the kernel, which neither pointers nor the tree reach
	log      *slog.Logger
	outcomes time.Duration // how long the outcomes of idempotent commands are kept
	store    store.Store
	opened   chan struct{} // closed when the store has been opened
	inUse    atomic.Bool   // another process had the store open at the last attempt to open it
	blobs    *blobs.Dir
	journal  *journal.Journal
	memory   *memory.Memory
	resolve  func(context.Context, message.BlobPointer) ([]byte, error) // fetches what a pointer points to
	client   *http.Client                                               // sends requests that callers cause
	own      *http.Client                                               // sends requests that the owner has set up
	asking   *http.Client                                               // sends requests to hosts that the owner has named in a setting
	keys     *crypto.Keyring
	embed    []embed.Model   // the one that is chosen, then others that may have made vectors
	meaning  *ranked.Meaning // searches texts that have no index by meaning
	vectors  *vectors.Cache  // the cache of all indexes of vectors
	dropped  journal.Dropped // messages that maintain has dropped since the last report

	// These exist when the modules do.
	tree      *vfs.Tree
	files     string     // the folder of the home at the root of the tree; "" if a root is mounted
	directory string     // its folder os is a part of the root of the tree, by Files.Directory; "" if there is none
	untrusted problemLog // why trusted folders aren't used
	process   *kernelfs.Process
}

// isOpen reports whether the store has been opened.
func (s *state) isOpen() bool {
	select {
	case <-s.opened:
		return true
	default:
		return false
	}
}

// storeWait is how long Open waits for a store that another process has open: most commands
// have it for some milliseconds.
const storeWait = 2 * time.Second

// record opens the store and the journal. It waits for a command that has the store open for
// a moment.
func (s *state) record() (kernel.Recorder, error) {
	pauses := backoff.Backoff{First: 2 * time.Millisecond, Longest: 100 * time.Millisecond}
	waiting, cancel := context.WithTimeout(context.Background(), storeWait)
	defer cancel()
	for {
		open, err := s.store.Snapshot()
		if err == nil {
			s.memory.SetRecorder(s.journal)
			return s.journal, errors.Join(open.Close(), s.journal.Flush())
		}
		if !errors.Is(err, store.ErrInUse) || !pauses.Wait(waiting.Done()) {
			return nil, err
		}
	}
}

// ready reports why the kernel can't do its work at the moment: the store can't be read or
// written.
func (s *state) ready() error {
	now, err := s.store.Snapshot()
	if err != nil {
		return err
	}
	_, err = s.store.Apply(new(store.Batch))
	return errors.Join(err, now.Close())
}

// close makes everything durable and closes the store.
func (s *state) close() error {
	s.client.CloseIdleConnections()
	s.asking.CloseIdleConnections()
	s.keys.Close()
	var err error
	if s.tree != nil {
		err = s.tree.Close()
	}
	return errors.Join(err, s.journal.Close(), s.store.Close())
}
