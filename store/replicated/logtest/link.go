package logtest

import (
	"context"
	"errors"
	"sync"

	"kernos/store"
	"kernos/store/replicated"
)

// ErrRefused is the error of a log that refuses entries.
var ErrRefused error = &store.Error{Code: 503, Text: "The log refuses entries"}

// A Link is a node's way to a log. It implements [replicated.Log].
type Link struct {
	Log *Log

	mu     sync.Mutex
	open   chan struct{} // closed while the link isn't hanging
	lose   bool          // the answer to the next Append is lost, and the Append hangs
	take   bool          // although the log takes it
	refuse int           // Appends that are refused
	left   int           // Appends until the link hangs; 0 means that it doesn't
	hung   chan struct{} // gets a token when an Append begins to hang
}

// Link returns a way to the log.
func (l *Log) Link() *Link {
	open := make(chan struct{})
	close(open)
	return &Link{Log: l, open: open, hung: make(chan struct{}, 1)}
}

// Hang lets nothing through from now on, until Resume.
func (k *Link) Hang() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.open = make(chan struct{})
}

// HangAfter lets a number of Appends through, and then nothing.
func (k *Link) HangAfter(appends int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.left = appends + 1
}

// Resume ends what Hang, HangAfter, Lose and Refuse have begun.
func (k *Link) Resume() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.lose, k.refuse, k.left = false, 0, 0
	select {
	case <-k.open:
	default:
		close(k.open)
	}
}

// Lose loses the answer to the next Append, which the log takes or doesn't get. The Append finds out when the link
// resumes.
func (k *Link) Lose(take bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.lose, k.take = true, take
}

// Refuse makes the next Appends fail with ErrRefused.
func (k *Link) Refuse(times int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.refuse = times
}

// Hung returns a channel that gets a token when an Append hangs.
func (k *Link) Hung() <-chan struct{} { return k.hung }

// Append implements [replicated.Log].
func (k *Link) Append(ctx context.Context, after uint64, e replicated.Entry) (uint64, error) {
	k.mu.Lock()
	if k.refuse > 0 {
		k.refuse--
		k.mu.Unlock()
		return 0, ErrRefused
	}
	if k.left > 0 {
		if k.left--; k.left == 0 {
			k.open = make(chan struct{})
		}
	}
	if k.lose {
		k.lose = false
		k.open = make(chan struct{})
		if k.take {
			k.mu.Unlock()
			if _, err := k.Log.Append(ctx, after, e); err != nil && !errors.Is(err, replicated.ErrDeposed) {
				return 0, err
			}
			k.mu.Lock()
		}
	}
	open := k.open
	k.mu.Unlock()
	select {
	case <-open:
	default:
		select {
		case k.hung <- struct{}{}:
		default:
		}
	}
	if err := wait(ctx, open); err != nil {
		return 0, err
	}
	return k.Log.Append(ctx, after, e)
}

func wait(ctx context.Context, open chan struct{}) error {
	select {
	case <-open:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// through waits while the link hangs.
func (k *Link) through(ctx context.Context) error {
	k.mu.Lock()
	open := k.open
	k.mu.Unlock()
	return wait(ctx, open)
}

// Last implements [replicated.Log].
func (k *Link) Last(ctx context.Context) (replicated.Entry, error) {
	if err := k.through(ctx); err != nil {
		return replicated.Entry{}, err
	}
	return k.Log.Last(ctx)
}

// Follow implements [replicated.Log].
func (k *Link) Follow(ctx context.Context, after uint64, each func(replicated.Entry) error) error {
	return k.Log.Follow(ctx, after, func(e replicated.Entry) error {
		if err := k.through(ctx); err != nil {
			return err
		}
		return each(e)
	})
}

// A Lease is one that a test ends. The zero value holds.
type Lease struct {
	mu   sync.Mutex
	lost error
}

// Holds implements [replicated.Lease].
func (l *Lease) Holds() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lost
}

// ErrLapsed is the error of a lease that doesn't hold.
var ErrLapsed error = &store.Error{Code: 503, Text: "The lease has lapsed"}

// End ends the lease, and Renew makes it hold again.
func (l *Lease) End() { l.set(ErrLapsed) }

// Renew makes the lease hold.
func (l *Lease) Renew() { l.set(nil) }

func (l *Lease) set(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lost = err
}
