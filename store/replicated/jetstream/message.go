package jetstream

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"kernos/store/replicated"
)

// A Message is a message that the stream has.
type Message struct {
	Subject  string
	Sequence uint64
	Header   nats.Header
	Data     []byte
	Time     time.Time // by the clock of the server that was the leader
}

// Headers of messages.
const (
	headerAfter   = "Nats-Expected-Last-Subject-Sequence"         // the sequence of the message before it on the subject
	headerSubject = "Nats-Expected-Last-Subject-Sequence-Subject" // the subject, if it isn't the message's own
	headerRollup  = "Nats-Rollup"
	headerID      = "Kernos-Id" // the identity of a message, in all attempts to publish it
)

// The numbers of errors of the server.
const (
	codeWrongLast  = 10071 // the text names the last sequence
	codeConcurrent = 10164 // another message of the subject is on its way
	codeNotStored  = 10077 // storing it failed
)

// after returns the sequence of the message before this one on its subject.
func (m *Message) after() (uint64, bool) {
	n, err := strconv.ParseUint(m.Header.Get(headerAfter), 10, 64)
	return n, err == nil
}

// Last returns the last message of a subject, as the leader of the stream has it, or one with the sequence 0 if there is
// none. A leader that was cut off from the others may answer with an earlier message for some seconds; [Stream.Confirm]
// finds that out.
func (p *place) Last(ctx context.Context, subject string) (Message, error) {
	return found(p.stream.GetLastMsgForSubject(ctx, subject))
}

// Next returns the first message of a subject after a sequence, like [Stream.Last].
func (p *place) Next(ctx context.Context, subject string, after uint64) (Message, error) {
	return found(p.stream.GetMsg(ctx, after+1, jetstream.WithGetMsgSubject(subject)))
}

// found returns a message of the client, or one with the sequence 0 if it wasn't found.
func found(m *jetstream.RawStreamMsg, err error) (Message, error) {
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return Message{}, nil
	}
	if err != nil {
		return Message{}, err
	}
	return Message{Subject: m.Subject, Sequence: m.Sequence, Header: m.Header, Data: m.Data, Time: m.Time}, nil
}

// A Conflict is the error of a message whose subject has another last message than expected. The sequence may be an
// earlier one than expected, if it is from a leader that was cut off.
type Conflict struct{ Sequence uint64 }

func (c *Conflict) Error() string {
	return fmt.Sprintf("another message is the last one of the subject: the one with the sequence %d", c.Sequence)
}

// Errors of Publish.
var (
	// ErrConcurrent means that another message of the subject was on its way. It may be an earlier attempt of the same one.
	ErrConcurrent = errors.New("another message of the subject is on its way")

	// ErrUnknown means that the message may have arrived, or may still arrive. Errors of Publish wrap it with the cause.
	ErrUnknown = errors.New("it isn't known whether the servers have taken the message")
)

// Publish adds a message after the last one of its subject, which has the sequence after, and returns its own sequence.
// A message with the header Nats-Rollup: sub replaces all earlier ones of the subject. Publish makes one attempt:
// [Conflict], [ErrConcurrent] and [ErrUnknown] say what became of it; any other error means that the servers have
// refused this attempt.
func (p *place) Publish(ctx context.Context, m *nats.Msg, after uint64) (sequence uint64, err error) {
	if m.Header == nil {
		m.Header = make(nats.Header)
	}
	m.Header.Set(headerAfter, strconv.FormatUint(after, 10))
	reply, err := p.nc.RequestMsgWithContext(ctx, m)
	switch {
	case errors.Is(err, nats.ErrMaxPayload), errors.Is(err, nats.ErrReconnectBufExceeded):
		return 0, err
	case errors.Is(err, nats.ErrNoResponders):
		return 0, fmt.Errorf("%w: the stream has no leader now", ErrUnknown)
	case err != nil:
		return 0, fmt.Errorf("%w: %w", ErrUnknown, err)
	}
	var ack struct {
		Sequence uint64 `json:"seq"`
		Error    *struct {
			Code        int    `json:"code"`
			Number      int    `json:"err_code"`
			Description string `json:"description"`
		} `json:"error"`
	}
	if err := json.Unmarshal(reply.Data, &ack); err != nil {
		return 0, fmt.Errorf("%w: the answer isn't one of JetStream: %w", ErrUnknown, err)
	}
	switch {
	case ack.Error == nil && ack.Sequence > 0:
		return ack.Sequence, nil
	case ack.Error == nil:
		return 0, fmt.Errorf("%w: the answer has no sequence: %s", ErrUnknown, reply.Data)
	case ack.Error.Number == codeConcurrent:
		return 0, ErrConcurrent
	case ack.Error.Number == codeWrongLast:
		var last uint64
		if _, err := fmt.Sscanf(ack.Error.Description, "wrong last sequence: %d", &last); err != nil {
			return 0, ErrConcurrent
		}
		return 0, &Conflict{Sequence: last}
	}
	return 0, &refusal{ack.Error.Number, ack.Error.Description}
}

// A refusal is the answer of servers that don't take a message.
type refusal struct {
	number int
	text   string
}

func (r *refusal) Error() string {
	return fmt.Sprintf("the servers refused the message: %s (%d)", r.text, r.number)
}

// sure reports whether none of the servers has the message. If storing it failed, some may have it.
func (r *refusal) sure() bool { return r.number != codeNotStored }

// refusals is how often the servers may refuse a message before [Stream.Add] gives up.
const refusals = 4

// Add publishes a message like [Stream.Publish], and repeats it until its outcome is known or ctx is done. The error is
// a [Conflict] if another message follows after, one that wraps [ErrUnknown] if ctx was done first,
// [replicated.ErrDiverged] if the stream has lost the message that it should follow, and any other one if the servers
// refuse the message.
//
// The message gets a random header Kernos-Id, unless it has one. With the same one, a message that was added before
// after the same sequence isn't added again.
func (p *place) Add(ctx context.Context, m *nats.Msg, after uint64) (sequence uint64, err error) {
	if m.Header == nil {
		m.Header = make(nats.Header)
	}
	if m.Header.Get(headerID) == "" {
		m.Header.Set(headerID, rand.Text())
	}
	pauses, patience, warned := pauses(), attempt, time.Now()
	unsure, refused, earlier := false, 0, 0
	for {
		attempt, cancel := context.WithTimeout(ctx, patience)
		sequence, err := p.Publish(attempt, m, after)
		cancel()
		if err == nil {
			return sequence, nil
		}
		if errors.Is(err, nats.ErrMaxPayload) {
			return 0, err
		}
		next, lookup := p.lookup(ctx, m.Subject, after)
		switch {
		case lookup != nil:
			err = errors.Join(err, lookup)
		case next.Sequence > after && next.Header.Get(headerID) == m.Header.Get(headerID):
			return next.Sequence, nil
		case next.Sequence > after:
			return 0, &Conflict{Sequence: next.Sequence}
		}
		conflict, refusal := (*Conflict)(nil), (*refusal)(nil)
		switch {
		case errors.As(err, &conflict) && conflict.Sequence < after:
			if earlier++; earlier >= 3 { // else it may be a leader that was cut off
				if last, err := p.Confirm(ctx, m.Subject); err == nil && last.Sequence < after {
					return 0, fmt.Errorf("%w: %s ends with the sequence %d, and this node knows of %d",
						replicated.ErrDiverged, m.Subject, last.Sequence, after)
				}
			}
		case errors.As(err, &refusal) && refusal.sure() && lookup == nil:
			if refused++; refused >= refusals && !unsure {
				return 0, err
			}
		case errors.Is(err, ErrUnknown), errors.As(err, &refusal):
			unsure = true
		}
		if p.nc.IsClosed() {
			return 0, fmt.Errorf("%w: %w", ErrUnknown, nats.ErrConnectionClosed)
		}
		if time.Since(warned) > 10*time.Second {
			warned = time.Now()
			p.log.Warn("A message isn't accepted yet", "subject", m.Subject, "after", after, "error", err)
		}
		if !pauses.Wait(ctx.Done()) {
			return 0, fmt.Errorf("%w: %w (%w)", ErrUnknown, ctx.Err(), err)
		}
		if errors.Is(err, context.DeadlineExceeded) {
			patience = min(2*patience, 8*time.Second) // the message may be too large for the network
		}
	}
}

// lookup is Next with a bound on its time.
func (p *place) lookup(ctx context.Context, subject string, after uint64) (Message, error) {
	ctx, cancel := context.WithTimeout(ctx, attempt)
	defer cancel()
	return p.Next(ctx, subject, after)
}

// Confirm reads the last message of a subject like [Stream.Last], and has a majority of the servers confirm that it was
// the last one at a moment during the call. It repeats what fails on the way until ctx is done.
func (p *place) Confirm(ctx context.Context, subject string) (Message, error) {
	for pauses := pauses(); ; {
		m, err := p.confirm(ctx, subject)
		if err == nil {
			return m, nil
		}
		if p.nc.IsClosed() {
			return Message{}, errorf(nats.ErrConnectionClosed, "The connection to the servers of the cluster is closed")
		}
		if !pauses.Wait(ctx.Done()) {
			return Message{}, errorf(errors.Join(ctx.Err(), err), "The servers of the cluster don't answer; "+
				"check that a majority of them runs and can reach each other")
		}
	}
}

// confirm is one attempt of Confirm. The message that it publishes is accepted only if the last message of the other
// subject is the one that was read.
func (p *place) confirm(ctx context.Context, subject string) (Message, error) {
	ctx, cancel := context.WithTimeout(ctx, attempt)
	defer cancel()
	last, err := p.Last(ctx, subject)
	if err != nil {
		return Message{}, err
	}
	m := nats.NewMsg(p.confirmation)
	m.Header.Set(headerSubject, subject)
	m.Header.Set(headerRollup, "sub")
	_, err = p.Publish(ctx, m, last.Sequence)
	return last, err
}
