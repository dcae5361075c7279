package jetstream

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"

	"kernos/store/replicated"
)

// An originLog is the log of an origin: a subject of the stream.
type originLog struct {
	stream  *Stream
	subject string
	writer  string // tells the entries of this value from the entries of other ones
}

// headers is what the headers of an entry have at most, in bytes, with what the server counts to the message.
const headers = 1 << 10

// Append implements [replicated.Log].
func (l *originLog) Append(ctx context.Context, after uint64, e replicated.Entry) (uint64, error) {
	data := body(e.Groups)
	m := &nats.Msg{Subject: l.subject, Header: headerOf(e, data), Data: data}
	// The same entry after the same sequence is the same message, also if a caller appends it again.
	m.Header.Set(headerID, l.writer+" "+m.Header.Get(headerEntry))
	if len(data) > l.stream.largest()-headers {
		name := fmt.Sprintf("entry/%s/%d/%d/%s", l.subject, e.Epoch, e.First, rand.Text())
		if _, err := l.stream.objects.Put(ctx, name, bytes.NewReader(data)); err != nil {
			return 0, err
		}
		m.Header.Set(headerObject, name)
		m.Data = nil
	}
	sequence, err := l.stream.Add(ctx, m, after)
	if conflict := (*Conflict)(nil); errors.As(err, &conflict) {
		return 0, fmt.Errorf("%w: the sequence %d follows %d", replicated.ErrDeposed, conflict.Sequence, after)
	}
	return sequence, err
}

// Last implements [replicated.Log]. A majority of the servers has confirmed that it was the last entry.
func (l *originLog) Last(ctx context.Context) (replicated.Entry, error) {
	m, err := l.stream.Confirm(ctx, l.subject)
	if err != nil || m.Sequence == 0 {
		return replicated.Entry{}, err
	}
	e, count, _, err := entryOf(m)
	if count > 0 {
		e.Groups = make([][]byte, count)
	}
	return e, err
}

// Follow implements [replicated.Log].
func (l *originLog) Follow(ctx context.Context, after uint64, each func(replicated.Entry) error) error {
	return l.stream.follow(ctx, l.subject, after, func(m Message) error {
		e, count, sum, err := entryOf(m)
		if err != nil {
			return err
		}
		data := m.Data
		if name := m.Header.Get(headerObject); name != "" {
			if data, err = l.stream.objects.read(ctx, name); err != nil {
				return fmt.Errorf("%w: %w", errDamaged, err)
			}
		}
		if e.Groups, err = groupsOf(data, count, sum); err != nil {
			return err
		}
		return each(e)
	})
}
