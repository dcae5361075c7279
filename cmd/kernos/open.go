package main

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"kernos/capability/memory"
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
	dir     string // of the origin
	log     *slog.Logger
	store   store.Store
	opened  atomic.Bool
	blobs   *blobs.Dir
	journal *journal.Journal
	memory  *memory.Memory
}

// place finds the directory that holds the state of all origins, and the origin that the
// environment names.
func place() (dir string, o store.Origin, err error) {
	home, err := homeDirectory()
	if err != nil {
		return "", "", err
	}
	o, err = store.ParseOrigin(os.Getenv("KERNOS_ORIGIN"))
	return filepath.Join(home, "origins"), o, err
}

// openState finds the state of the origin that the environment names.
func openState(log *slog.Logger) (*state, error) {
	home, origin, err := place()
	if err != nil {
		return nil, err
	}
	s := &state{dir: filepath.Join(home, origin.Folder()), log: log}
	if s.blobs, err = blobs.New(filepath.Join(s.dir, "blobs")); err != nil {
		return nil, err
	}
	s.store = store.Lazy(func() (store.Store, error) {
		engine, err := pebble.Open(filepath.Join(s.dir, "store"), &pebble.Options{Log: log})
		if err != nil {
			return nil, err
		}
		s.opened.Store(true)
		return engine, nil
	})
	// Whoever reaches this process is the owner of the machine, and may point to any of
	// their files.
	everything := &blobs.Resolver{Dir: s.blobs, Client: &http.Client{}, Limit: memory.MaxValue}
	s.memory = memory.New(s.store, s.blobs, &memory.Options{Resolve: everything.Resolve, Log: log})
	s.journal = journal.New(s.store, &journal.Options{
		MaxBytes: maxJournal, Log: log,
		BlobPath: s.blobs.Root(), BlobRefs: s.refer(blobs.Refer), BlobUnrefs: s.refer(blobs.Unrefer),
	})
	return s, nil
}

// maxJournal is how much the records in the journal may take before the oldest are
// dropped.
const maxJournal = 4 << 30

// refer returns what tells the store that records mention blobs, or no longer do.
func (s *state) refer(tell func(*store.Batch, blobs.Hash, []byte)) func(b *store.Batch, data, owner []byte) {
	return func(b *store.Batch, data, owner []byte) {
		for _, h := range s.blobs.Mentions(data) {
			tell(b, h, owner)
		}
	}
}

// close makes everything durable and lets go of the store.
func (s *state) close() error {
	return errors.Join(s.journal.Close(), s.store.Close())
}

// maintain forgets what has expired, as long as ctx lasts.
func (s *state) maintain(ctx context.Context, k *kernel.Kernel) {
	tick := time.NewTicker(time.Minute)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			if s.opened.Load() {
				s.sweep(ctx, k, now)
			}
		}
	}
}

// unused is how long a blob that nothing refers to is kept: as long as the outcome of an
// idempotent command, which may point to it, and some more.
const unused = kernel.DefaultIdempotencyTTL + time.Hour

func (s *state) sweep(ctx context.Context, k *kernel.Kernel, now time.Time) {
	_, err := k.Sweep(ctx, now)
	_, memoryErr := s.memory.Sweep(ctx, now)
	_, journalErr := s.journal.Trim(ctx, now)
	_, blobErr := s.blobs.Collect(ctx, s.store, unused, now)
	if err := errors.Join(err, memoryErr, journalErr, blobErr); err != nil && ctx.Err() == nil {
		s.log.Warn("can't forget what has expired", "error", err)
	}
}

// Put implements [kernel.Blobs].
func (s *state) Put(_ context.Context, data []byte) (message.BlobPointer, error) {
	blob, err := s.blobs.Put(data)
	return blob.Pointer(), err
}
