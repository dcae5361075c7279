// Package jetstream is the log of a cluster as a stream of NATS JetStream. The servers of NATS replicate the stream and
// elect its leader; this package makes an entry of a log a message, and finds out what became of it.
//
//	stream, err := jetstream.Open(ctx, nc, jetstream.Options{Replicas: 3})
//	log := stream.Log(origin)
//	sequence, err := log.Append(ctx, after, entry) // a majority of the servers have it on disk
//
// # The stream
//
// A stream KERNOS has the subjects kernos.>: kernos.origin.NAME is the log of an origin, and what else a cluster keeps
// (its owner, its nodes) is written with [Stream.Publish] or [Stream.Add], and read with [Stream.Last], [Stream.Confirm]
// and [Stream.Watch]. The object store of the same name has what is larger than a message may be, and blobs.
//
// The stream has no limits, and refuses new messages rather than drop old ones. A message can't be deleted. Messages can
// be purged, because the server refuses rollups otherwise, and the owner of an origin is kept by rollups. Messages are
// read from the leader of the stream: any replica could answer a direct get, also one that lags.
//
// # What became of a message
//
// Each message names the sequence of the message before it on its subject. The stream accepts it only if that is true,
// and keeps the number, so that a reader of the subject notices if a message is missing. A message whose outcome is
// unknown is looked for by its identity, a random number; if the stream doesn't have it, the same message is published
// again, with the same expectation, so that at most one of them is accepted.
//
// A leader that was cut off from the other servers still answers for some seconds, with what it had then. What it has
// is true: only a majority makes a message part of the stream. That it lacks something proves nothing. So a conflict
// with an earlier message than expected isn't deposition, and what has to be the last message is confirmed by a
// majority ([Stream.Confirm]).
//
// The client of NATS has goroutines of its own for each connection, and for each call of Follow or Watch. They end with
// these.
package jetstream

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"kernos/store"
	"kernos/store/replicated"
)

// Options say which stream it is. The zero value is the stream KERNOS on three servers.
type Options struct {
	Name     string       // of the stream, in capital letters; KERNOS if empty
	Replicas int          // servers that keep the stream; 3 if zero
	Message  int          // bytes of the largest message; 0 or too many: as many as the server takes
	Synced   bool         // the servers are known to sync each message to the disk before they confirm it
	Log      *slog.Logger // nothing is logged if nil
}

// A Stream is an open stream. It is safe for concurrent use.
type Stream struct {
	place
	options Options
	objects *Objects
}

const (
	format  = "1"      // of messages; the stream's metadata has it
	keyword = "kernos" // in the stream's metadata
)

// Open finds the stream, or makes it, and its object store. It waits for servers that don't answer yet until ctx is
// done. It doesn't take over the connection, which must stay open for as long as the stream is used.
func Open(ctx context.Context, nc *nats.Conn, o Options) (*Stream, error) {
	if o.Name == "" {
		o.Name = "KERNOS"
	}
	if o.Replicas == 0 {
		o.Replicas = 3
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if v := nc.ConnectedServerVersion(); older(v) {
		return nil, fmt.Errorf("the NATS server %s has the version %s; Kernos needs 2.12 or later", nc.ConnectedServerName(), v)
	}
	js, err := jetstream.New(nc)
	if err != nil {
		return nil, err
	}
	prefix := strings.ToLower(o.Name)
	log, err := openPlace(ctx, nc, js, o.Log, jetstream.StreamConfig{
		Name:        o.Name,
		Description: "Logs of Kernos, by origin",
		Subjects:    []string{prefix + ".>"},
		Retention:   jetstream.LimitsPolicy,
		Discard:     jetstream.DiscardNew,
		Storage:     jetstream.FileStorage,
		Replicas:    o.Replicas,
		Duplicates:  time.Second, // no message has an id for the server
		DenyDelete:  true,
		AllowRollup: true,
		Metadata:    map[string]string{keyword: format},
	})
	if err != nil {
		return nil, err
	}
	// This is how the object store of NATS keeps a bucket (its ADR-20), with reads by the leader.
	bucket, err := openPlace(ctx, nc, js, o.Log, jetstream.StreamConfig{
		Name:        "OBJ_" + o.Name,
		Description: "Large data of Kernos",
		Subjects:    []string{"$O." + o.Name + ".C.>", "$O." + o.Name + ".M.>"},
		Discard:     jetstream.DiscardNew,
		Storage:     jetstream.FileStorage,
		Replicas:    o.Replicas,
		Duplicates:  time.Second,
		AllowRollup: true,
		Metadata:    map[string]string{keyword: format},
	})
	if err != nil {
		return nil, err
	}
	s := &Stream{place: log, options: o}
	s.confirmation, bucket.confirmation = s.Subject("confirmed"), "$O."+o.Name+".C.confirmed"
	s.objects = &Objects{place: bucket, bucket: o.Name}
	return s, nil
}

// older reports whether a server lacks what this package asks of it: an expectation about another subject, and the
// comparison of concurrent publishes, which is correct since then. An unknown version isn't older.
func older(version string) bool {
	var major, minor int
	n, _ := fmt.Sscanf(version, "%d.%d", &major, &minor)
	return n == 2 && (major < 2 || major == 2 && minor < 12)
}

// Name returns the name of the stream, such as KERNOS.
func (s *Stream) Name() string { return s.options.Name }

// Subject returns the subject of the stream with these tokens, such as kernos.node.NAME. Signs that a token can't have
// become hyphens.
func (s *Stream) Subject(tokens ...string) string {
	subject := strings.ToLower(s.options.Name)
	for _, t := range tokens {
		subject += "." + token(t)
	}
	return subject
}

// token returns a text as a token of a subject.
func token(text string) string {
	return strings.Map(func(r rune) rune {
		if r <= ' ' || r == '.' || r == '*' || r == '>' || r >= 0x7F {
			return '-'
		}
		return r
	}, text)
}

// Conn returns the connection to the servers.
func (s *Stream) Conn() *nats.Conn { return s.nc }

// Log returns the log of an origin.
func (s *Stream) Log(origin store.Origin) replicated.Log {
	return &originLog{stream: s, subject: s.Subject("origin", origin.Folder()), writer: rand.Text()}
}

// Objects returns the object store beside the stream.
func (s *Stream) Objects() *Objects { return s.objects }

// largest returns how many bytes a message may have, with its headers.
func (s *Stream) largest() int {
	most := int(s.nc.MaxPayload())
	if s.options.Message > 0 {
		most = min(most, s.options.Message)
	}
	return most
}

// errorf makes the error of a stream that can't be used.
func errorf(err error, format string, args ...any) error {
	return &store.Error{Code: 503, Text: fmt.Sprintf(format, args...), Err: err}
}
