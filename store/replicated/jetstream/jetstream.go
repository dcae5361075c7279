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
// (its owner, its nodes) is written with [Stream.Publish] and read with [Stream.Last]. The object store of the same name
// has what is larger than a message may be, and blobs.
package jetstream

import (
	"context"
	"log/slog"

	"github.com/nats-io/nats.go"

	"kernos/store"
	"kernos/store/replicated"
)

// Options say which stream it is. The zero value is the stream KERNOS on three servers.
type Options struct {
	Name     string       // of the stream, in capital letters; KERNOS if empty
	Replicas int          // servers that keep the stream; 3 if zero
	Message  int          // bytes of the largest message; 0 or too many: as many as the server takes
	Log      *slog.Logger // nothing is logged if nil
}

// A Stream is an open stream. It is safe for concurrent use.
type Stream struct {
	options Options
	nc      *nats.Conn
}

// Open finds the stream, or makes it, and its object store. It doesn't take over the connection, which must stay open
// for as long as the stream is used.
func Open(ctx context.Context, nc *nats.Conn, o Options) (*Stream, error) {
	panic("TODO")
}

// Name returns the name of the stream, such as KERNOS.
func (s *Stream) Name() string { return s.options.Name }

// Subject returns the subject of the stream with these tokens, such as kernos.node.NAME.
func (s *Stream) Subject(tokens ...string) string { panic("TODO") }

// Conn returns the connection to the servers.
func (s *Stream) Conn() *nats.Conn { return s.nc }

// Log returns the log of an origin.
func (s *Stream) Log(origin store.Origin) replicated.Log { panic("TODO") }

// Objects returns the object store beside the stream.
func (s *Stream) Objects() *Objects { panic("TODO") }

// Warnings returns what the servers don't promise, one sentence each, with what to do.
func (s *Stream) Warnings(ctx context.Context) []string { panic("TODO") }
