package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"kernos/store/replicated/jetstream"
)

// A record is the last message of the owner's subject.
type record struct {
	Node     string        `json:"node"`
	Instance string        `json:"instance"` // a random name of the process
	Epoch    uint64        `json:"epoch"`
	Renewal  uint64        `json:"renewal"` // counts what this owner has published
	Lease    time.Duration `json:"lease"`   // in nanoseconds
	Door

	// The owner's kernel is closed, and the node that is named, or any node if none is, may take over at once.
	Stopping  bool   `json:"stopping,omitempty"`
	Successor string `json:"successor,omitempty"`
}

// same reports whether two records are of one owner's epoch.
func (r *record) same(o *record) bool { return r.Instance == o.Instance && r.Epoch == o.Epoch }

// messages is what this package needs of a stream.
type messages interface {
	Last(ctx context.Context, subject string) (jetstream.Message, error)
	Confirm(ctx context.Context, subject string) (jetstream.Message, error)
	Publish(ctx context.Context, m *nats.Msg, after uint64) (uint64, error)
}

// A register is a subject whose last message counts.
type register struct {
	messages
	subject string
}

// put replaces the last message, which has the sequence after.
func (r register) put(ctx context.Context, v any, after uint64) (sequence uint64, err error) {
	m := nats.NewMsg(r.subject)
	m.Header.Set("Nats-Rollup", "sub")
	if m.Data, err = json.Marshal(v); err != nil {
		return 0, err
	}
	return r.Publish(ctx, m, after)
}

// last reads the last message into v. There is none if the sequence is 0. The message is confirmed by a majority if
// sure is set.
func (r register) last(ctx context.Context, v any, sure bool) (sequence uint64, err error) {
	read := r.Last
	if sure {
		read = r.Confirm
	}
	m, err := read(ctx, r.subject)
	if err != nil || m.Sequence == 0 {
		return 0, err
	}
	if err := json.Unmarshal(m.Data, v); err != nil {
		return 0, fmt.Errorf("the message %d of %s isn't a record of this cluster: %w", m.Sequence, r.subject, err)
	}
	return m.Sequence, nil
}

// errTaken means that another node has the ownership.
var errTaken = errors.New("another node owns")

// errUnsettled means that it isn't known yet what became of a record. The next attempt finds out.
var errUnsettled = errors.New("the record of the owner wasn't acknowledged")

// A claim is an ownership that this node has, or tries to take: the record that it puts again and again, and the lease
// that comes of it. It is used by one goroutine at a time; the lease by any.
type claim struct {
	register register
	length   time.Duration // of the lease, less the margin
	lease    *lease
	record   record
	after    uint64                   // the sequence that the next message has to follow
	unsure   bool                     // it isn't known whether this is the last message
	stale    int                      // reads that had less than was known
	begun    map[uint64]time.Duration // when the attempts began whose outcome isn't known, by their renewal
}

// attempt puts the record once. The error is errTaken if another node has the ownership, and otherwise one that may
// pass: what the outcome was is found out by the next attempt, before it puts anything.
func (c *claim) attempt(ctx context.Context) error {
	if c.unsure {
		if settled, err := c.settle(ctx); settled || err != nil {
			return err
		}
	}
	c.record.Renewal++
	begin := c.lease.now()
	c.begun[c.record.Renewal] = begin
	sequence, err := c.register.put(ctx, &c.record, c.after)
	if err != nil {
		c.unsure = true
		return fmt.Errorf("%w: %w", errUnsettled, err)
	}
	c.accepted(sequence, c.record.Renewal)
	return nil
}

// accepted notes that a record is the last message.
func (c *claim) accepted(sequence, renewal uint64) {
	c.after, c.unsure, c.stale = sequence, false, 0
	if begin, ok := c.begun[renewal]; ok {
		c.lease.extend(begin + c.length)
	}
	for r := range c.begun {
		if r <= renewal {
			delete(c.begun, r)
		}
	}
}

// settle finds out what became of the attempts before: settled if the newest has arrived.
func (c *claim) settle(ctx context.Context) (settled bool, err error) {
	var found record
	sure := c.stale > 2 // a leader that was cut off answers, or the servers have lost messages
	sequence, err := c.register.last(ctx, &found, sure)
	switch {
	case err != nil:
		return false, err
	case sequence > c.after && found.same(&c.record):
		c.accepted(sequence, found.Renewal)
		return found == c.record, nil
	case sequence > c.after, sure && found.Epoch >= c.record.Epoch && !found.same(&c.record):
		return false, errTaken
	case sequence < c.after && !sure:
		c.stale++
		return false, errUnsettled
	}
	c.after, c.stale = sequence, 0
	return false, nil // nothing has arrived, or not yet: then the next one is in conflict with it
}
