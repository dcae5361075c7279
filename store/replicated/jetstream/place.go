package jetstream

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"kernos/internal/backoff"
)

// A place is a stream of the servers: the one of logs, or the one of objects.
type place struct {
	nc           *nats.Conn
	js           jetstream.JetStream
	stream       jetstream.Stream
	log          *slog.Logger
	confirmation string // the subject for confirmations
}

// attempt is how long a request waits for its answer at first. It takes less than a millisecond if all is well; an
// election takes 4 to 9 seconds.
const attempt = 2 * time.Second

// pauses are between attempts.
func pauses() *backoff.Backoff {
	return &backoff.Backoff{First: 5 * time.Millisecond, Longest: time.Second, Jitter: true}
}

// openPlace finds a stream, or makes it.
func openPlace(ctx context.Context, nc *nats.Conn, js jetstream.JetStream, log *slog.Logger, c jetstream.StreamConfig) (place, error) {
	for pauses, last := pauses(), time.Now(); ; {
		stream, err := findStream(ctx, js, c)
		if err == nil {
			return place{nc: nc, js: js, stream: stream, log: log}, nil
		}
		if permanent(err) || nc.IsClosed() {
			return place{}, err
		}
		if time.Since(last) > 10*time.Second {
			last = time.Now()
			log.Warn("The servers don't open the stream yet", "stream", c.Name, "error", err)
		}
		if !pauses.Wait(ctx.Done()) {
			return place{}, errorf(errors.Join(ctx.Err(), err), "The servers of the cluster didn't open the stream %s in time; "+
				"check that a majority of them runs and can reach each other", c.Name)
		}
	}
}

// findStream is one attempt of openPlace.
func findStream(ctx context.Context, js jetstream.JetStream, c jetstream.StreamConfig) (jetstream.Stream, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*attempt)
	defer cancel()
	stream, err := js.Stream(ctx, c.Name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		stream, err = js.CreateStream(ctx, c)
		if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
			stream, err = js.Stream(ctx, c.Name) // another node was first
		}
	}
	if err != nil {
		return nil, err
	}
	is := stream.CachedInfo().Config
	if wrong := unfit(is, c); wrong != "" {
		return nil, errUnfit(fmt.Errorf("the stream %s %s; correct it with nats stream edit, "+
			"or choose another name for the stream of this cluster", c.Name, wrong))
	}
	return stream, nil
}

// unfit returns what is wrong with a stream that exists, or "".
func unfit(is, want jetstream.StreamConfig) string {
	switch {
	case is.Metadata[keyword] != want.Metadata[keyword]:
		return "wasn't made by this version of Kernos"
	case fmt.Sprint(is.Subjects) != fmt.Sprint(want.Subjects):
		return fmt.Sprintf("has the subjects %v instead of %v", is.Subjects, want.Subjects)
	case is.Storage != want.Storage:
		return "isn't kept in files"
	case is.Retention != want.Retention, is.MaxMsgs > 0, is.MaxBytes > 0, is.MaxAge > 0, is.MaxMsgsPerSubject > 0:
		return "has limits, so it could lose what was accepted"
	case !is.AllowRollup:
		return "doesn't allow rollups"
	case is.AllowDirect:
		return "allows direct gets, which replicas answer that lag"
	}
	return ""
}

// errUnfit marks an error that trying again doesn't help.
func errUnfit(err error) error { return unfitError{err} }

type unfitError struct{ error }

func (e unfitError) Unwrap() error { return e.error }

// permanent reports whether trying again doesn't help.
func permanent(err error) bool {
	var unfit unfitError
	return errors.As(err, &unfit) || errors.Is(err, jetstream.ErrJetStreamNotEnabled) ||
		errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount) || errors.Is(err, nats.ErrPermissionViolation)
}
