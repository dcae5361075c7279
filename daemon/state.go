package daemon

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"kernos/capability/crypto"
	"kernos/capability/memory"
	"kernos/capability/vfs"
	"kernos/capability/vfs/kernelfs"
	"kernos/internal/backoff"
	"kernos/internal/embed"
	"kernos/internal/outbound"
	"kernos/internal/ranked"
	"kernos/journal"
	"kernos/kernel"
	"kernos/message"
	"kernos/store"
	"kernos/store/blobs"
	"kernos/store/pebble"
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
	asking   *http.Client                                               // sends requests to language models
	keys     *crypto.Keyring
	embed    []embed.Model   // the one that is chosen, then others that may have made vectors
	meaning  *ranked.Meaning // searches texts that have no index by meaning
	vectors  *vectors.Cache  // the cache of all indexes of vectors
	dropped  journal.Dropped // messages that maintain has dropped since the last report

	// These exist when the modules do.
	tree      *vfs.Tree
	directory string // the folder os in it is the root of the tree; "" if a root is mounted
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

// newState prepares the state of a home.
func newState(home Home, o *Options, socket string) (*state, error) {
	s := &state{home: home, log: o.Log, outcomes: o.Retention.outcomes(), opened: make(chan struct{})}
	s.private = []string{home.Dir}
	if socket != "" {
		if own, err := home.Socket(); err == nil && own == socket { // another socket has no directory of its own
			s.private = append(s.private, filepath.Dir(own))
		}
	}
	policy, err := o.policy()
	if err != nil {
		return nil, err
	}
	if s.blobs, err = blobs.New(filepath.Join(home.State(), "blobs")); err != nil {
		return nil, err
	}
	open := o.OpenStore
	if open == nil {
		settings := o.Pebble
		settings.Log, settings.Address, settings.Watchers = o.Log, socket, new(store.Watchers)
		open = func(dir string) (store.Store, error) { return pebble.OpenOrRead(dir, &settings) }
	}
	opened := sync.OnceFunc(func() {
		close(s.opened)
		if o.StoreOpened != nil {
			o.StoreOpened()
		}
	})
	s.store = store.Lazy(func() (store.Store, error) {
		engine, err := open(home.Store())
		s.inUse.Store(errors.Is(err, store.ErrInUse))
		if err == nil {
			opened()
		}
		return engine, err
	})
	s.client, s.own = newOutgoing(policy)
	policy.Private, policy.Loopback = true, true // the owner has named the host in the settings of the model
	s.asking = outbound.NewClient(policy, nil)
	s.keys = crypto.New(crypto.Options{
		Agent: crypto.Socket(o.Keys.Agent), Key: o.Keys.Seal, KeyFile: home.Key(), RequireAgent: o.Keys.RequireAgent, OpenUnbound: o.Keys.OpenUnbound, Log: o.Log,
	})
	s.embed, s.vectors = s.embeddings(o), vectors.NewCache(vectorBytes, vectorsKept)
	// The owner may point to any file of this machine that isn't the kernel's, and tokens to
	// blobs that they reach.
	own := &blobs.Resolver{Dir: s.blobs, Private: s.private, Client: s.client, Limit: memory.MaxValue}
	confined := *own
	confined.Confined, confined.Reaches = true, s.callerReaches
	s.resolve = func(ctx context.Context, p message.BlobPointer) ([]byte, error) {
		if kernel.PrincipalOf(ctx).IsOwner() {
			return own.Resolve(ctx, p)
		}
		return confined.Resolve(ctx, p)
	}
	s.meaning = ranked.NewMeaning(s.embed[0])
	s.memory = memory.New(s.store, s.blobs, &memory.Options{Meaning: s.meaning, Resolve: s.resolve, Reaches: s.callerReaches, Proc: s.proc, ProcKeys: s.procKeys, Now: o.Now, Log: o.Log})
	s.journal = journal.New(s.store, &journal.Options{
		Retention: journal.Retention{MaxAge: o.Retention.MaxAge, MaxBytes: o.Retention.journalBytes()}, Blobs: s, Log: o.Log,
		Models: s.embed, Vectors: s.vectors,
	})
	return s, nil
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
