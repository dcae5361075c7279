// Package store is the contract of durable state: ordered keys, atomic batches,
// commits that can be awaited.
//
// Everything durable (memory, the journal, idempotency, …) is a keyspace on this one
// contract, a prefix of its own, so that an engine is small and a feature never
// knows which engine it runs on. Engines live in the folders below; every engine
// passes the suite in store/storetest.
//
//	var b store.Batch
//	b.IfRevision(key, e.Revision) // it has not changed since we read it
//	b.Set(key, value)
//	commit, err := s.Apply(&b) // visible to every reader from here on …
//	err = commit.Wait(ctx)     // … and on disk from here on
//
// A keyspace begins with a byte that no other has. Keys that begin with a zero byte belong to the engine.
package store

import (
	"bytes"
	"fmt"
	"iter"
)

// The keyspaces: the first byte of their keys.
const (
	SpaceMemory      = 'm' // capability/memory
	SpaceIdempotency = 'i' // kernel
	SpaceJournal     = 'j' // journal
	SpaceBlobs       = 'b' // store/blobs: who refers to which blob
	SpaceHolders     = 'h' // store/blobs: who may fetch which blob
	SpaceTokens      = 't' // capability/token
	SpaceWork        = 'w' // work: what waits and what runs
	SpaceJobs        = 'J' // capability/job
	SpaceClaims      = 'r' // capability/register: the owners of names
	SpaceScripts     = 'c' // capability/script
	SpaceSessions    = 'S' // capability/session
	SpaceMcp         = 'M' // capability/mcphost
	SpaceVectors     = 'V' // capability/vector
	SpaceNotify      = 'N' // capability/notify
)

// A Revision counts the batches that changed a store. That of a key is the revision of
// the batch that set it last; a key that is absent has revision 0. Revisions only
// grow, across restarts too, and may leave numbers out.
type Revision uint64

// MaxRevision is more than any store reaches: a million batches per second for two thousand years.
// A store that imported larger ones from a file could run out of revisions.
const MaxRevision Revision = 1 << 56

// An Entry is a key with its value. Its slices are valid until the next step of the
// iteration that returned it. The value that Get returns stays valid and must not be
// changed: others may have it too. Its key is the one that was asked for.
type Entry struct {
	Key, Value []byte
	Revision   Revision
}

// A Range is the keys from From on and before To. A nil From is the first key, a nil To
// is after the last one.
type Range struct {
	From, To []byte
	Reverse  bool // from the last key to the first
}

// Prefix returns the range of the keys that begin with p.
func Prefix(p []byte) Range { return Range{From: p, To: After(p)} }

// After returns the first key that does not begin with p, or nil if there is none.
func After(p []byte) []byte {
	for i := len(p) - 1; i >= 0; i-- {
		if p[i] < 0xFF {
			next := append([]byte(nil), p[:i+1]...)
			next[i]++
			return next
		}
	}
	return nil
}

// A Reader reads one state of a store.
type Reader interface {
	// Get returns the entry of a key. An absent key isn't an error: its entry has
	// revision 0 and no value.
	Get(key []byte) (Entry, error)

	// Scan goes through the entries of a range in order. An error ends it.
	Scan(Range) iter.Seq2[Entry, error]
}

// First returns the first entry of a range, with revision 0 if there is none. The caller may
// keep it.
func First(r Reader, keys Range) (Entry, error) {
	for e, err := range r.Scan(keys) {
		return Entry{Key: bytes.Clone(e.Key), Value: bytes.Clone(e.Value), Revision: e.Revision}, err
	}
	return Entry{}, nil
}

// A Snapshot is a state of a store that does not change. It is safe for
// concurrent use, and must be closed.
type Snapshot interface {
	Reader

	// GetAll reads many keys, which ascend: as Get, but an entry is valid until the next
	// step. An error ends the iteration.
	GetAll(keys [][]byte) iter.Seq2[Entry, error]

	Close() error
}

// A Store keeps entries. It is safe for concurrent use. As a Reader it reads the latest
// state: what Apply has returned for is in it.
//
// Its errors have a code, see [Error]; after Close every call fails with [ErrClosed].
type Store interface {
	Reader

	// Snapshot returns the latest state.
	Snapshot() (Snapshot, error)

	// Apply makes a batch part of the state, whole or not at all, and returns at once:
	// every reader sees it from then on, and the commit reports when it is durable.
	// Batches become durable in the order in which they were applied.
	//
	// A condition that does not hold is an [ErrConflict], and nothing is changed. Apply
	// copies what it needs of the batch. If the store can't write, the error is returned here, and
	// reading continues; it writes again when it can.
	Apply(*Batch) (*Commit, error)

	// Barrier returns a commit that is durable when everything applied so far is. It
	// writes nothing.
	Barrier() *Commit

	// Watch reports changes under a prefix until the watcher is stopped.
	Watch(prefix []byte) *Watcher

	// Close makes everything durable and lets go of the store.
	Close() error
}

// An Error is a failure of a store, with the code that a caller is answered with.
type Error struct {
	Code int    // an HTTP status
	Text string // for the caller: what is wrong, and what to do
	Err  error  // the cause, for the operator's log; or nil
}

func (e *Error) Error() string {
	if e.Err == nil {
		return e.Text
	}
	return e.Text + ": " + e.Err.Error()
}

// Unwrap returns what the operator should know.
func (e *Error) Unwrap() error { return e.Err }

// Public returns what a caller may see of the error.
func (e *Error) Public() (code int, text string) { return e.Code, e.Text }

// Errorf makes an Error; the text is for the caller.
func Errorf(code int, err error, format string, args ...any) *Error {
	return &Error{Code: code, Text: fmt.Sprintf(format, args...), Err: err}
}

// Errors that callers look for with errors.Is.
var (
	ErrConflict error = &Error{Code: 409, Text: "A condition of the batch does not hold"}
	ErrInUse    error = &Error{Code: 503, Text: "The store is in use by another process"}
	ErrClosed   error = &Error{Code: 503, Text: "The store is closed: the kernel is shutting down"}
	ErrReadOnly error = &Error{Code: 503, Text: "The store was opened for reading only; open it again"}
)
