package replicated

import (
	"context"
	"sync"
	"time"

	"kernos/store"
	"kernos/store/pebble"
)

// markLife is how long a copy remembers its state at a mark. Pebble keeps what was deleted meanwhile.
const markLife = time.Minute

// marks has the state of a copy at the last mark.
type marks struct {
	mu       sync.Mutex
	news     sync.Cond
	closed   bool
	reached  uint64         // the last sequence that the copy has reached
	sequence uint64         // the sequence of the mark
	snapshot store.Snapshot // nil if it was forgotten
	timer    *time.Timer
}

// keep remembers the state at a mark in place of the one before.
func (m *marks) keep(sequence uint64, snapshot store.Snapshot) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.forget()
	if m.closed {
		_ = snapshot.Close() // closing a snapshot can't fail
		return
	}
	m.sequence, m.snapshot = sequence, snapshot
	m.reached = max(m.reached, sequence)
	m.timer = time.AfterFunc(markLife, func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		if m.snapshot == snapshot {
			m.forget()
		}
	})
	m.news.Broadcast()
}

// forget closes the snapshot. The caller holds mu. Who reads it gets an error.
func (m *marks) forget() {
	if m.snapshot != nil {
		_ = m.snapshot.Close() // closing a snapshot can't fail
		m.timer.Stop()
	}
	m.snapshot = nil
}

// pass notes that the copy has reached an entry.
func (m *marks) pass(sequence uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if sequence > m.reached {
		m.reached = sequence
		m.news.Broadcast()
	}
}

func (m *marks) close() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
	m.forget()
	m.news.Broadcast()
}

// wait returns the snapshot at a mark.
func (m *marks) wait(ctx context.Context, sequence uint64) (store.Snapshot, error) {
	defer context.AfterFunc(ctx, func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.news.Broadcast()
	})()
	m.mu.Lock()
	defer m.mu.Unlock()
	for {
		switch {
		case m.closed:
			return nil, store.ErrClosed
		case m.snapshot != nil && m.sequence == sequence:
			return m.snapshot, nil
		case m.reached >= sequence:
			return nil, store.Errorf(409, nil,
				"The copy has passed entry %d and does not remember its state there; compare the copies again", sequence)
		case ctx.Err() != nil:
			return nil, ctx.Err()
		}
		m.news.Wait()
	}
}

// Checksum returns the checksum of all that is replicated, as it was at a mark ([Owner.Mark]), which it waits for.
// The error has the code 409 if the copy can't know: it was opened after the mark, or the mark is older than a
// minute, or another one came after it.
func (c *Copy) Checksum(ctx context.Context, sequence uint64) (string, error) {
	c.marks.pass(c.Position().Sequence)
	snapshot, err := c.marks.wait(ctx, sequence)
	if err != nil {
		return "", err
	}
	return pebble.Sum(snapshot)
}
