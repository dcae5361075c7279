package main

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"runtime/debug"
	"time"

	"kernos/capability/memory"
	"kernos/cmd/kernos/exit"
	"kernos/journal"
	"kernos/kernel"
	"kernos/message"
	"kernos/store"
	"kernos/store/blobs"
	"kernos/store/pebble"
)

// state is everything durable that one process has open: the folder of one origin in the
// home directory. Nothing is opened, or made, before something needs it.
type state struct {
	home     string // of all origins
	dir      string // of the origin
	log      *slog.Logger
	outcomes time.Duration // how long those of idempotent commands are kept
	store    store.Store
	opened   chan struct{} // closed when the store has been opened
	blobs    *blobs.Dir
	journal  *journal.Journal
	memory   *memory.Memory
	atSweep  func()                                                     // what is done with every sweep, before it; may be nil
	resolve  func(context.Context, message.BlobPointer) ([]byte, error) // fetches what a pointer points to
	outside
}

// place finds the directory that holds the state of all origins, and the origin that the
// environment names.
func place() (dir string, o store.Origin, err error) {
	home, err := homeDirectory()
	if err == nil {
		o, err = store.ParseOrigin(os.Getenv("KERNOS_ORIGIN"))
	}
	if err != nil {
		return "", "", &exit.Error{Status: exit.Usage, Cause: err}
	}
	return filepath.Join(home, "origins"), o, nil
}

// findState finds the state of the origin that the environment names.
func findState(log *slog.Logger, keep retention, out *outsideSettings) (*state, error) {
	return findStateIn(log, keep, out, pebble.Options{}, 200)
}

// modest are the settings of the store of a daemon, which does nothing for most of its
// life: it is to have less than 60 MB then, whatever it did before.
var modest = pebble.Options{CacheSize: 8 << 20, MemTableSize: 8 << 20}

// modestGarbage is how much garbage a daemon may have, in percent of what is none.
const modestGarbage = 100

// findStateIn is findState with settings of the store, and with how much garbage there may be
// when it is open, in percent of what is none.
func findStateIn(log *slog.Logger, keep retention, out *outsideSettings, settings pebble.Options, garbage int) (*state, error) {
	origins, origin, err := place()
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(origins, origin.Folder())
	settings.Log = log
	return newState(filepath.Dir(origins), dir, log, keep, out, func() (store.Store, error) {
		engine, err := pebble.OpenOrRead(filepath.Join(dir, "store"), &settings)
		if err == nil {
			calm(garbage)
		}
		return engine, err
	})
}

// newState returns the state in a directory of a home. The store is opened when it is needed.
func newState(home, dir string, log *slog.Logger, keep retention, out *outsideSettings, open func() (store.Store, error)) (*state, error) {
	s := &state{home: home, dir: dir, log: log, opened: make(chan struct{})}
	s.outcomes = cmp.Or(time.Duration(keep.outcomes.age), kernel.DefaultIdempotencyTTL)
	var err error
	if s.blobs, err = blobs.New(filepath.Join(dir, "blobs")); err != nil {
		return nil, err
	}
	s.store = store.Lazy(func() (store.Store, error) {
		engine, err := open()
		if err != nil {
			return nil, err
		}
		close(s.opened)
		return engine, nil
	})
	// Whoever reaches this process is the owner of the machine, and may point to any of
	// their files, but not into the state of other origins.
	if err := s.reach(out); err != nil {
		return nil, err
	}
	s.resolve = (&blobs.Resolver{Dir: s.blobs, Private: home, Client: s.client, Limit: memory.MaxValue}).Resolve
	s.memory = memory.New(s.store, s.blobs, &memory.Options{Resolve: s.resolve, Proc: s.proc, ProcKeys: s.procKeys, Log: log})
	s.journal = journal.New(s.store, &journal.Options{
		MaxAge: time.Duration(keep.age), MaxBytes: int64(keep.size), Log: log,
		BlobPath: filepath.Base(s.blobs.Root()), BlobRefs: s.Refer, BlobUnrefs: s.Unrefer,
	})
	return s, nil
}

// record opens the store and the journal. Who wants a record wants to know now if there
// can be none.
func (s *state) record() (kernel.Recorder, error) {
	open, err := s.store.Snapshot()
	if err != nil {
		return nil, err
	}
	s.memory.SetRecorder(s.journal)
	return s.journal, errors.Join(open.Close(), s.journal.Flush())
}

// Refer implements [kernel.BlobOwners].
func (s *state) Refer(b *store.Batch, data, owner []byte) {
	for _, h := range s.blobs.Mentions(data) {
		blobs.Refer(b, h, owner)
	}
}

// Unrefer implements [kernel.BlobOwners].
func (s *state) Unrefer(b *store.Batch, data, owner []byte) {
	for _, h := range s.blobs.Mentions(data) {
		blobs.Unrefer(b, h, owner)
	}
}

// calm collects garbage more often than a kernel without a store does: the store's cache
// and tables live long, and letting garbage grow to a multiple of them would be felt.
func calm(garbage int) {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(garbage)
	}
}

// close makes everything durable and lets go of the store.
func (s *state) close() error {
	return errors.Join(s.leave(), s.journal.Close(), s.store.Close())
}

// Put implements [kernel.Blobs].
func (s *state) Put(_ context.Context, data []byte) (message.BlobPointer, error) {
	blob, err := s.blobs.Put(data)
	return blob.Pointer(), err
}
