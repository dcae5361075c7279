package replicated

import (
	"context"
	"log/slog"

	"kernos/store"
	"kernos/store/pebble"
)

// Options are the settings of a copy. The zero value has good ones.
type Options struct {
	// Engine has the settings of the store in the directory; nil means the usual ones.
	Engine *pebble.Options

	// Log is for the operator; nil means that nothing is logged.
	Log *slog.Logger
}

// A Position is how far a copy is.
type Position struct {
	Epoch    uint64 // the epoch of the last entry that the copy knows
	Sequence uint64 // the sequence of the last entry that the copy has and knows to be accepted
	Accepted uint64 // the number of the last group that is known to be accepted
	Number   uint64 // the number of the last group in the copy
}

// A Copy is what one node has of an origin: a directory, which follows the log, or whose owner writes into the log.
// It is safe for concurrent use. It follows or is owned, one at a time: a second call returns an error with the code 409.
type Copy struct{}

// Open opens the copy in a directory, which is made if there is none. It doesn't need the log yet.
func Open(dir string, log Log, options *Options) (*Copy, error) { panic("to be written") }

// Follow applies what the log has after the position of the copy, until ctx is done, and returns the error of ctx
// then. First it drops what the log has not accepted. If the log lacks what it had accepted, the error is
// [ErrDiverged], and nothing is changed.
func (c *Copy) Follow(ctx context.Context) error { panic("to be written") }

// Own makes this node the owner. It begins the epoch, which must be larger than any before it, also than one that an
// earlier Own on this node was given, whatever became of that; and follows the log to there. The error is [ErrDeposed]
// if the log has that epoch or a later one. The copy is owned until the Owner is closed; afterwards it can follow, or be owned again.
// Ctx is for the call, not for the Owner.
func (c *Copy) Own(ctx context.Context, epoch uint64, lease Lease) (*Owner, error) {
	panic("to be written")
}

// Position returns how far the copy is.
func (c *Copy) Position() Position { panic("to be written") }

// Checksum returns the checksum of all that is replicated, as it was at a mark ([Owner.Mark]), which it waits for. The error has the code
// 409 if the copy can't know: it was opened after the mark, or the mark is older than a minute, or another one came after it.
func (c *Copy) Checksum(ctx context.Context, sequence uint64) (string, error) { panic("to be written") }

// Close closes the copy. Its Owner must be closed before; a Follow ends with an error.
func (c *Copy) Close() error { panic("to be written") }

// Leave makes an ordinary store of the copy in a directory: drops what the log has not accepted, and forgets the
// position. No process may have the copy open.
func Leave(dir string, options *Options) error { panic("to be written") }

// An Owner is the store of an origin while this node owns the origin. A commit is decided when the directory and the log
// have the batch.
type Owner struct {
	store.Store // the engine: Barrier is the fence of reads
}

// Lost returns a channel that is closed when another node has taken the origin. Then all pending commits fail with
// [ErrDeposed], Apply and Barrier too. The Owner has to be closed.
func (o *Owner) Lost() <-chan struct{} { panic("to be written") }

// Mark adds an entry without groups to the log, and returns its sequence: each copy remembers its state there, for
// [Copy.Checksum].
func (o *Owner) Mark(ctx context.Context) (sequence uint64, err error) { panic("to be written") }

// Close waits until everything is accepted, 2 seconds at most (or CloseTimeout of the engine's options), and lets go of
// the origin. What was not accepted then may be, or is dropped later; its commits have failed.
func (o *Owner) Close() error { panic("to be written") }
