package jetstream

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"kernos/store/replicated"
)

// ErrGap is the error of a subject that lacks messages which were accepted.
var ErrGap = errors.New("the stream has lost messages that it had accepted")

const (
	readAhead = 8 << 20                // bytes of messages that are read before they are asked for
	heartbeat = 500 * time.Millisecond // how often a server shows that it still has a consumer
	damages   = 5                      // attempts to read a message from different replicas
)

// follow calls each with the messages of a subject after a sequence, until ctx is done or each returns an error. Each
// message must name the one before it; if it doesn't, or if each returns errDamaged, other replicas are asked first.
func (p *place) follow(ctx context.Context, subject string, after uint64, each func(Message) error) error {
	tries, exact := 0, after == 0 // after may be a sequence between two messages
	return p.sessions(ctx, func(ctx context.Context) error {
		if after > 0 {
			last, err := p.Confirm(ctx, subject)
			if err != nil {
				return err
			}
			if last.Sequence < after {
				return final{fmt.Errorf("%w: %s ends with the sequence %d, and this copy has %d",
					replicated.ErrDiverged, subject, last.Sequence, after)}
			}
		}
		c := jetstream.ConsumerConfig{FilterSubject: subject, DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: after + 1}
		return p.read(ctx, c, func(m Message) error {
			var err error
			switch before, known := m.after(); {
			case m.Sequence <= after:
				return nil
			case !known || before > after || exact && before < after:
				err = fmt.Errorf("%w: on %s, the sequence %d follows %d, and this copy ends with %d",
					ErrGap, subject, m.Sequence, before, after)
			default:
				if err = each(m); err == nil {
					after, tries, exact = m.Sequence, 0, true
					return nil
				}
			}
			if tries++; tries < damages && (errors.Is(err, ErrGap) || errors.Is(err, errDamaged)) {
				p.log.Warn("A message is read again from another server", "subject", subject, "sequence", m.Sequence, "error", err)
				return err
			}
			return final{err}
		})
	})
}

// Watch calls each with the last message of every subject that matches a pattern, such as kernos.node.*, and with what
// follows, until ctx is done or each returns an error. After a failure it begins again with the last messages, so each
// may see a message twice, and needn't see every message.
func (p *place) Watch(ctx context.Context, pattern string, each func(Message) error) error {
	return p.sessions(ctx, func(ctx context.Context) error {
		c := jetstream.ConsumerConfig{FilterSubject: pattern, DeliverPolicy: jetstream.DeliverLastPerSubjectPolicy}
		return p.read(ctx, c, func(m Message) error {
			if err := each(m); err != nil {
				return final{err}
			}
			return nil
		})
	})
}

// final is an error that ends all sessions.
type final struct{ error }

// sessions calls session again and again, until it returns a final error, or ctx is done, or the connection is closed.
func (p *place) sessions(ctx context.Context, session func(context.Context) error) error {
	pauses, warned := pauses(), time.Now()
	for {
		began := time.Now()
		err := session(ctx)
		if end := (final{}); errors.As(err, &end) {
			return end.error
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if p.nc.IsClosed() {
			return errorf(nats.ErrConnectionClosed, "The connection to the servers of the cluster is closed")
		}
		if time.Since(began) > 2*time.Second {
			pauses.Reset()
		}
		if time.Since(warned) > 10*time.Second {
			warned = time.Now()
			p.log.Warn("The stream can't be followed now; trying again", "error", err)
		}
		pauses.Wait(ctx.Done())
	}
}

// read makes a consumer and calls each with what it has, until an error.
func (p *place) read(ctx context.Context, c jetstream.ConsumerConfig, each func(Message) error) error {
	c.AckPolicy = jetstream.AckNonePolicy
	c.InactiveThreshold = time.Minute
	c.MemoryStorage, c.Replicas = true, 1
	consumer, err := p.consumer(ctx, c)
	if err != nil {
		return err
	}
	name := consumer.CachedInfo().Name
	defer p.remove(name)
	messages, err := consumer.Messages(jetstream.PullMaxMessagesWithBytesLimit(256, max(readAhead, 2*int(p.nc.MaxPayload()))),
		jetstream.PullExpiry(5*time.Second), jetstream.PullHeartbeat(heartbeat))
	if err != nil {
		return err
	}
	defer messages.Stop()
	for {
		m, err := messages.Next(jetstream.NextContext(ctx))
		if err != nil {
			return err
		}
		about, err := m.Metadata()
		if err != nil {
			return err
		}
		err = each(Message{
			Subject: m.Subject(), Sequence: about.Sequence.Stream, Header: m.Headers(), Data: m.Data(), Time: about.Timestamp,
		})
		if err != nil {
			return err
		}
	}
}

// consumer makes a consumer.
func (p *place) consumer(ctx context.Context, c jetstream.ConsumerConfig) (jetstream.Consumer, error) {
	ctx, cancel := context.WithTimeout(ctx, attempt)
	defer cancel()
	return p.js.CreateConsumer(ctx, p.stream.CachedInfo().Config.Name, c)
}

// remove removes a consumer. The server does it too, after a while.
func (p *place) remove(consumer string) {
	if !p.nc.IsConnected() {
		return
	}
	_ = p.nc.Publish("$JS.API.CONSUMER.DELETE."+p.stream.CachedInfo().Config.Name+"."+consumer, nil)
}
