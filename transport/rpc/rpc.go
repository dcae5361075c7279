// Package rpc is the introspective streaming RPC protocol: JSON-RPC 2.0 in which every call
// is a stream, every syscall a method, and the service lists what it has. It knows nothing
// of the wire: a [Conn] carries frames, and each frame is one JSON text.
//
//	service := rpc.New(k, nil)
//	defer service.Close()
//	err := service.Serve(ctx, wire) // one connection
//
// A call is acknowledged with the id of its stream, and then its items come as
// notifications:
//
//	→ {"jsonrpc":"2.0","id":1,"method":"memory_get","params":[{"key":"/notes/1"}]}
//	← {"jsonrpc":"2.0","id":1,"result":"V2BQ…"}
//	← {"jsonrpc":"2.0","method":"service_subscription","params":{"subscription":"V2BQ…","result":
//	      {"service_hash":"a1…","type":"data","provenance":["memory"],"content_type":"memory.get","data":"milk","seq":1}}}
//	← … {"service_hash":"a1…","type":"done","provenance":["memory"],"seq":2}
//
// The service itself answers these methods:
//
//	service_schema         []               a stream: the modules and their methods
//	service_module_schema  [namespace]      a stream: the JSON Schema of a module's methods
//	service_hash           []               a stream: the hash of all that
//	service_unsubscribe    [id]             true if there was such a stream; it is cancelled and forgotten
//	service_resume         [id, after]      the id; the items after that number come again, and those to come
//	rpc.discover           []               an OpenRPC document
//
// A stream outlives its connection for a while: a client that knows its id, which can't
// be guessed, may resume it on another one.
//
// For wires that carry no frames there are [Service.Call], which gives the outcome of one
// call, and [Service.Open], which gives its items, as a stream like the others.
//
// # Goroutines
//
//   - Watching the peer of a stopped connection, one per connection: it ends when the connection has ended. Package
//     connection has the loop.
//   - The timer of lost streams, for a moment, one per service; what the end of a principal or of a context causes.
package rpc

import (
	"encoding/json"
	"errors"
	"sync/atomic"
	"time"

	"kernos/internal/recent"
	"kernos/kernel"
	"kernos/kernel/principal"
)

// Limits, if the options don't set them.
const (
	DefaultSubscriptions = 1000
	DefaultKeepFor       = 2 * time.Minute
)

// Options are the settings of a Service. The zero value is usable.
type Options struct {
	// Subscriptions is how many streams of one connection may be open at once. 0 means
	// DefaultSubscriptions.
	Subscriptions int

	// KeepFor is how long a stream is kept after its connection was lost. 0 means
	// DefaultKeepFor.
	KeepFor time.Duration

	// KeepItems and KeepBytes bound what is kept of one stream for resuming it. 0 means 1,024
	// and 1 MB.
	KeepItems, KeepBytes int

	// KeepAll bounds, in bytes, what is kept of all streams without a connection; the
	// oldest are dropped first. 0 means 64 MB.
	KeepAll int

	// KeepEndless is how many endless calls may continue without a connection;
	// the oldest are dropped first. 0 means 4,096.
	KeepEndless int
}

// A Conn carries the frames of one connection.
type Conn interface {
	// Read returns the next frame, which is the caller's to keep. If it has to wait for it,
	// it first sends what Write has taken. It is called by one goroutine at a time. io.EOF
	// means that the peer has closed the connection and wants nothing more; any other error, that it is
	// lost and may come back.
	Read() ([]byte, error)

	// Write takes a frame, which it must not keep, and may wait while too many are not
	// read. It is called by several goroutines. Unless more is set, nothing follows soon
	// and the frame must be sent without a call of Flush. A wire that is broken takes
	// frames and drops them.
	Write(frame []byte, more bool)

	// Flush sends what Write has taken.
	Flush()

	// Left is called after Read has returned [ErrStopped]. It returns true when the peer has
	// gone, and false when finished is closed.
	Left(finished <-chan struct{}) bool
}

// A Service serves a kernel to any number of connections. It is safe for concurrent use.
type Service struct {
	k    *kernel.Kernel
	opts Options
	kept keep

	closed    atomic.Bool
	documents *recent.Cache[json.RawMessage] // keys are hash and name
}

// ErrStopped is the error of a wire that is no longer read although its peer is there:
// the program ends.
var ErrStopped = errors.New("the wire is no longer read")

// ErrClosed is the error of a service that was closed.
var ErrClosed = errors.New("the service is closed")

// Kernel returns the kernel that is served.
func (s *Service) Kernel() *kernel.Kernel { return s.k }

// view returns what a caller sees of the kernel.
func (s *Service) view(caller *principal.Principal) kernel.View { return s.k.Registry().For(caller) }
