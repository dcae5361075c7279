package jetstream

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
)

// A Message is a message that the stream has.
type Message struct {
	Subject  string
	Sequence uint64
	Header   nats.Header
	Data     []byte
	Time     time.Time // by the clock of the server that was the leader
}

// Last returns the last message of a subject, as the leader of the stream has it, or one with the sequence 0 if there is
// none. A leader that was cut off from the others may answer with an earlier message for some seconds; [Stream.Confirm]
// finds that out.
func (s *Stream) Last(ctx context.Context, subject string) (Message, error) { panic("TODO") }

// Confirm reads the last message of a subject like [Stream.Last], and has a majority of the servers confirm that it was
// the last one at a moment during the call.
func (s *Stream) Confirm(ctx context.Context, subject string) (Message, error) { panic("TODO") }

// Publish adds a message after the last one of its subject, which has the sequence after, and returns its own sequence.
// A message with the header Nats-Rollup: sub replaces all earlier ones of the subject. The message isn't repeated:
// [Conflict], [ErrConcurrent] and [ErrUnknown] say what became of it.
func (s *Stream) Publish(ctx context.Context, m *nats.Msg, after uint64) (sequence uint64, err error) {
	panic("TODO")
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
