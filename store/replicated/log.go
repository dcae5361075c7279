// Package replicated is the engine for more than one machine: a store in a directory, as package pebble has it,
// beside a log that the servers of a cluster keep.
//
//	c, err := replicated.Open(dir, log, nil)
//	err = c.Follow(ctx)                    // a copy of what another node owns …
//	owner, err := c.Own(ctx, epoch, lease) // … until this node becomes the owner
//	commit, err := owner.Apply(&batch)
//	err = commit.Wait(ctx) // on disk, and on the disks of a majority of the servers
//
// One node at a time is the owner of an origin. It begins an epoch in the log, and appends each group of batches that
// its engine writes (publisher.go), with the sequence of the entry that it has seen last. So an owner that another
// node has taken the origin from can't append anything: the log fences it, and no clock does. A commit is decided
// when the directory and the log have the batch.
//
// All other nodes follow the log (copy.go). What an owner has applied to its directory and the log has never accepted
// is the tail of its copy, which is taken back before the copy follows. No group is lost that the log has accepted,
// and a copy that has more than the log is left as it is ([ErrDiverged]).
//
// Copies are compared at marks (marks.go), which are entries without groups.
//
// # Goroutines
//
//   - The publisher, one per [Owner]: [Copy.Own] starts it, and it ends with [Owner.Close], or when the owner is
//     deposed.
//   - What a timer calls, one per Owner at a time: an entry that is long on its way starts it, and it ends by itself.
//   - Forgetting the state at a mark, one: it ends by itself.
package replicated

import (
	"context"

	"kernos/store"
)

// A Log has what the owners of an origin have changed, in order. Whatever it has accepted, a majority of its servers
// have on disk. It is safe for concurrent use.
type Log interface {
	// Append adds an entry after the one with the sequence after, which is 0 for the first entry, and returns the
	// entry's sequence. If it isn't known whether the servers took the entry, Append finds out before it does
	// anything else: the error is [ErrDeposed] if another entry follows after, and the error of ctx if ctx was done
	// before the outcome was known. Any other error means that the servers refuse the entry for now, for example
	// because their disks are full: the caller tries again with the same entry. An entry may have the same epoch and
	// number as the one before it, and no groups (see Entry), so an entry that is found is the appended one only if
	// it is after after. Append keeps nothing of the entry when it has returned.
	Append(ctx context.Context, after uint64, e Entry) (sequence uint64, err error)

	// Last returns the last entry. Its groups are nil, but as many as it has, so that Next can be asked. The entry of
	// an empty log is the zero value.
	Last(ctx context.Context) (Entry, error)

	// Follow calls each with the entries after a sequence, in order, and waits for more until ctx is done or each
	// returns an error, which Follow returns. An entry's groups are valid until each returns. What fails meanwhile on
	// the way to the servers is repeated.
	Follow(ctx context.Context, after uint64, each func(Entry) error) error
}

// An Entry of a log is a number of groups of batches. An entry without groups is the beginning of its epoch or, later
// in the epoch, a mark, at which copies are compared. Groups are counted from 1, and an entry's first one follows the
// last one before it, whatever the epochs. Entries of the epoch 0 come before all others: they are the state of a
// store on one machine that has become the first copy, and the last one of them has no groups.
type Entry struct {
	Sequence uint64   // the place in the log; sequences grow, and may leave numbers out
	Epoch    uint64   // counts the owners
	First    uint64   // the number of the first group; of the first one to come, if there are no groups
	Groups   [][]byte // changes in the form of the engine
}

// Begins reports whether the entry is the beginning of an epoch, or a mark.
func (e *Entry) Begins() bool { return len(e.Groups) == 0 }

// Next returns the number of the first group after the entry.
func (e *Entry) Next() uint64 { return e.First + uint64(len(e.Groups)) }

// A Lease is the right to answer for an origin without asking the log.
type Lease interface {
	// Holds returns nil while no other node can be the owner, and otherwise an error for the caller.
	Holds() error
}

// Errors that callers look for with errors.Is.
var (
	// ErrDeposed is the error of an owner that another node has taken the origin from.
	ErrDeposed error = &store.Error{Code: 503, Text: "Another node owns this kernel now; try again"}

	// ErrDiverged is the error of a copy that has what the log has lost.
	ErrDiverged error = &store.Error{Code: 503, Text: "This copy has changes that were accepted, and that the log has lost"}
)
