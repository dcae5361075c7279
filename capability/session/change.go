package session

import (
	"cmp"
	"context"
	"errors"

	"github.com/go-json-experiment/json"

	"kernos/internal/jsonvalue"
	"kernos/kernel"
	"kernos/message"
	"kernos/store"
	"kernos/store/blobs"
	"kernos/work"
)

// A change is a batch that changes a session: the messages that it appends, and what happens when
// it is applied.
type change struct {
	x        *Sessions
	s        *session
	b        *store.Batch
	ctx      context.Context // acts for the principal of the session
	appended []Message
	applied  []func(*store.Commit)
	ending   []func() // called when the change ends its lease
}

// change begins a change of a session.
func (x *Sessions) change(ctx context.Context, s *session, b *store.Batch) *change {
	return &change{x: x, s: s, b: b, ctx: ctx}
}

// append adds a message after the leaf, or after another message.
func (c *change) append(m Message) (*Message, error) {
	s := c.s
	now := c.x.opts.Now()
	if m.ID == "" || m.ID <= s.LastID {
		if m.ID = c.x.ids.Next(now); s.LastID != "" && (c.x.growing(s.ID) || m.ID <= s.LastID) {
			m.ID = after(s.LastID) // the messages that grow have ids already
		}
	}
	s.Seq++
	m.Seq, m.Parent, m.Timestamp = s.Seq, s.Leaf, cmp.Or(m.Timestamp, now.UnixMilli())
	if s.turn != nil {
		m.Turn = s.turn.ID
	}
	if err := c.x.shrink(c.ctx, &m); err != nil {
		return nil, err
	}
	s.Leaf, s.LastID = m.Seq, m.ID
	at, text := messageKey(s.ID, m.Seq), jsonvalue.Marshal(m)
	c.b.Set(at, text)
	c.x.refer(c.b, text, at)
	c.appended = append(c.appended, m)
	return &c.appended[len(c.appended)-1], nil
}

// then adds what happens when the change has been applied.
func (c *change) then(f func()) {
	c.applied = append(c.applied, func(*store.Commit) { f() })
}

// done completes the change: the head and the turn are written.
func (c *change) done() {
	s := c.s
	s.Updated = c.x.opts.Now().UnixMilli()
	c.b.IfRevision(key(keyHead, s.ID), s.revision)
	c.b.Set(key(keyHead, s.ID), jsonvalue.Marshal(&s.head))
	if s.turn != nil {
		c.b.Set(key(keyTurn, s.ID), jsonvalue.Marshal(s.turn))
	} else {
		c.b.Delete(key(keyTurn, s.ID))
	}
	c.then(func() { c.x.stored(s.ID) })
}

// recordsOf returns the events that record the change, which a turn has caused.
func (c *change) recordsOf(t *turn) (all []message.Message) {
	for _, m := range c.appended {
		event := message.Message{Kind: message.KindEvent, Type: appendedEvent, Data: c.s.appendedData(m.withoutTexts())}
		event.Metadata.ID = message.ID(m.ID)
		event.Metadata.Causation, event.Metadata.Correlation = t.Cause, t.Correlation
		all = append(all, event)
	}
	return all
}

func (s *session) appendedData(m Message) []byte {
	return jsonvalue.Marshal(struct {
		Session string  `json:"session"`
		Seq     uint64  `json:"seq"`
		Message Message `json:"message"`
	}{s.ID, m.Seq, m})
}

// stage stages the change as the effect of the call of its context.
func (c *change) stage() error {
	c.done()
	for _, m := range c.appended {
		if err := kernel.Publish(c.ctx, appendedEvent, c.s.appendedData(m.withoutTexts())); err != nil {
			return err
		}
	}
	if err := kernel.Stage(c.ctx, c.b); err != nil {
		return err
	}
	for _, f := range c.applied {
		kernel.WhenApplied(c.ctx, f)
	}
	return nil
}

// wake puts the turn into the queue, or lets its worker look again.
func (c *change) wake() error {
	_, state, err := c.x.queue.Find(c.s.ID)
	if err != nil {
		return err
	}
	c.s.turn.Waiting = false
	if state == work.Absent {
		c.applied = append(c.applied, c.x.queue.Add(c.b, work.Task{ID: c.s.ID, Due: c.x.opts.Now(), Priority: work.DefaultPriority}))
	}
	return nil
}

// begin begins a turn with an input, which may be nil.
func (c *change) begin(id string, in *Message, cause message.ID, correlation string) error {
	c.s.turn = &turn{ID: id, State: thinking, Began: c.x.opts.Now().UnixMilli(), Cause: cause, Correlation: correlation, Remote: blobs.RemoteOf(c.ctx) != nil}
	if in != nil {
		if _, err := c.append(*in); err != nil {
			return err
		}
	}
	return c.wake()
}

// end ends the turn and begins the next one that waits. It returns whether one does.
func (c *change) end(status string, why *message.Error) (next bool, err error) {
	s, t := c.s, c.s.turn
	e := ending{Turn: t.ID, Status: status, Reply: t.Reply, Used: t.Used}
	if why != nil {
		e.Error = why.Append(nil)
	}
	s.Ended = append(s.Ended, e)
	s.Turns = max(s.Turns+1, len(s.Ended)) // version 0.8.0 didn't count them
	s.Ended = s.Ended[max(0, len(s.Ended)-maxEnded):]
	s.Used.add(t.Used)
	s.turn = nil
	c.then(func() { c.x.count(status) })
	first, err := store.First(c.x.opts.Store, store.Prefix(key(keyQueued, s.ID)))
	if err != nil || first.Revision == 0 {
		return false, err
	}
	var q queued
	if err := json.Unmarshal(first.Value, &q); err != nil {
		return false, err
	}
	c.b.IfRevision(first.Key, first.Revision)
	c.b.Delete(first.Key)
	c.x.unrefer(c.b, first.Value, first.Key)
	s.turn = &turn{ID: q.Message.Turn, State: thinking, Began: c.x.opts.Now().UnixMilli(), Cause: q.Cause, Correlation: q.Correlation, Remote: q.Remote}
	_, err = c.append(q.Message)
	return true, err
}

// errNothing means that nothing is to be changed.
var errNothing = errors.New("nothing to change")
