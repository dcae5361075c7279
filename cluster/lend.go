package cluster

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"kernos/internal/patience"
	"kernos/store"
	"kernos/store/blobs"
)

// A program of a node's machine puts large data into the folder of blobs of its own home, and calls with a pointer to it. If
// another node owns the kernel, the owner finds the blob neither in its own folder nor in the object store. It asks the other
// nodes then, and the one that has it puts it into the object store.

// offerTime is how long a node may take to answer that it has a blob.
const offerTime = time.Second

// What a node answers: that it has the blob, and that the object store has it.
const (
	offered = "here"
	lent    = "kept"
)

// LendSubject returns the subject on which nodes ask each other for the blobs of an origin. The stream doesn't keep it.
func LendSubject(stream string, origin store.Origin) string {
	return strings.ToLower(stream) + "-nodes.blob." + origin.Folder()
}

// Borrowing returns a depot which asks the other nodes for the blobs that it doesn't have.
func Borrowing(d blobs.Depot, nc *nats.Conn, subject string) blobs.Depot {
	return &borrower{d, nc, subject}
}

type borrower struct {
	blobs.Depot
	nc      *nats.Conn
	subject string
}

// Get implements [blobs.Depot].
func (b *borrower) Get(ctx context.Context, h blobs.Hash, w io.Writer) error {
	err := b.Depot.Get(ctx, h, w)
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	switch found, asking := b.ask(ctx, h); {
	case asking != nil:
		return asking
	case !found:
		return err
	}
	return b.Depot.Get(ctx, h, w)
}

// ask has a node put a blob into the depot, and reports whether one has it.
func (b *borrower) ask(ctx context.Context, h blobs.Hash) (found bool, err error) {
	answers, err := b.nc.SubscribeSync(b.nc.NewInbox())
	if err != nil {
		return false, err
	}
	defer func() { _ = answers.Unsubscribe() }() // fails if the connection is closed
	if err := b.nc.PublishRequest(b.subject, answers.Subject, []byte(h.String())); err != nil {
		return false, err
	}
	offering, cancel := context.WithTimeout(ctx, patience.For(offerTime))
	defer cancel()
	for waiting := offering; ; {
		m, err := answers.NextMsgWithContext(waiting)
		switch {
		case errors.Is(err, nats.ErrNoResponders), !found && offering.Err() != nil && ctx.Err() == nil:
			return false, nil
		case err != nil:
			return found, err
		case string(m.Data) == lent:
			return true, nil
		case string(m.Data) == offered:
			found, waiting = true, ctx
		}
	}
}

// Lend puts blobs of a folder into its depot when other nodes ask for them, one after the other, on a goroutine of the connection. It
// ends when stop is called, or with the connection. The depot of the folder isn't one that asks other nodes.
func Lend(dir *blobs.Dir, nc *nats.Conn, subject string) (stop func(), err error) {
	s, err := nc.Subscribe(subject, func(m *nats.Msg) {
		h, err := blobs.ParseHash(string(m.Data))
		if err != nil {
			return
		}
		if _, err := os.Lstat(dir.Path(h)); err != nil {
			return
		}
		_ = m.Respond([]byte(offered)) // if an answer is lost, the asking node gives up in a while
		if dir.Share(h) == nil {
			_ = m.Respond([]byte(lent))
		}
	})
	if err != nil {
		return nil, err
	}
	return func() { _ = s.Unsubscribe() }, nil // fails if the connection is closed
}
