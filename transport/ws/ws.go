// Package ws serves the protocol of transport/rpc over WebSocket.
//
//	handler := ws.New(service, nil)
//	mux.Handle("/ws", handler)
//	…
//	err := handler.Shutdown(ctx)
//
// The handler around it decides who may connect: Host, Origin and token are not checked
// here.
//
// A connection costs one goroutine that reads, and one that waits for it. What is written
// goes to a buffer, which is sent when the reader is about to wait, when a stream has
// nothing more to send for the moment, or when it is large. So the answers to calls that
// come in a row leave together, and one alone leaves at once.
//
// # Goroutines
//
//   - Serving, one per connection, beside the loop of package connection: [Handler] starts it, and it ends when the
//     peer has left and its streams have ended.
//   - Reading from a peer that isn't served any more, one per connection: Left starts it, and it ends when the
//     connection has ended, or is read again.
//   - Dropping a peer that reads too slowly, one per dropped connection: the sender starts it, and it ends when the
//     reason is written, or Patience ends.
//   - Closing a connection that is cut off, one per connection: over TLS that may take seconds.
//   - The timer of pings, one per connection; what the end of a principal causes.
package ws

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/gobwas/ws"

	"kernos/kernel"
	"kernos/store/blobs"
	"kernos/transport"
	"kernos/transport/rpc"
)

// Limits, if the options don't set them.
const (
	defaultPing     = 30 * time.Second
	DefaultPatience = 10 * time.Second
)

// Options are the settings of a Handler. The zero value is usable.
type Options struct {
	// MaxMessage is how many bytes a message may have that comes in. A longer one closes
	// the connection with 1009. 0 means 1 MB.
	MaxMessage int

	// MaxConnections is how many connections there may be at a time. One more is refused
	// with 429. 0 means 16,384.
	MaxConnections int

	// Ping is how long a connection may be silent before its peer is asked whether it is
	// there, and how long it has to answer. 0 means 30 s.
	Ping time.Duration

	// Patience is how long a peer may take to read what was sent, 64 KB at a time, before
	// it is dropped with 1008; and how long it then has to read that. 0 means
	// DefaultPatience.
	Patience time.Duration

	// MaxUnread is how many bytes wait for a peer that reads slowly; then calls
	// wait with what they send. 0 means 4 MB.
	MaxUnread int

	// FrameRate is how many messages per second are taken from one connection, after as many
	// as a second allows at once. A message beyond it waits, and its peer with it. A peer that
	// continues to send more gets the notification syscall_throttled. 0 means as
	// many as come.
	FrameRate float64

	// Log is for the operator. Nil means silence.
	Log *slog.Logger
}

// The reasons for which a [Handler] closes connections.
const (
	closedSlow    transport.Reason = "slow"    // the peer did not read
	closedSilent  transport.Reason = "silent"  // the peer did not answer a ping
	closedRevoked transport.Reason = "revoked" // the peer's token has ended
)

// A Handler serves a service over WebSocket.
type Handler struct {
	service *rpc.Service
	opts    Options
	conns   *transport.Server
}

// New returns a handler. Nil options mean defaults.
func New(service *rpc.Service, opts *Options) *Handler {
	h := &Handler{service: service}
	if opts != nil {
		h.opts = *opts
	}
	transport.Default(&h.opts.MaxMessage, 1<<20)
	transport.Default(&h.opts.MaxConnections, 16384)
	transport.Default(&h.opts.Ping, defaultPing)
	transport.Default(&h.opts.Patience, DefaultPatience)
	transport.Default(&h.opts.MaxUnread, 4<<20)
	h.opts.Log = cmp.Or(h.opts.Log, slog.New(slog.DiscardHandler))
	h.conns = transport.NewServer(service.Kernel(), transport.Limits{Connections: h.opts.MaxConnections, FrameRate: h.opts.FrameRate},
		[]transport.Reason{transport.TooMany}, []transport.Reason{closedSlow, closedSilent, closedRevoked}, h.opts.Log)
	return h
}

// Stats returns the figures of the moment.
func (h *Handler) Stats() transport.Stats { return h.conns.Stats() }

const (
	// protocol is the subprotocol of the service, for clients that have to name one.
	protocol = "kernos"

	// batchProtocol is the subprotocol in which every frame of the server is an array: the messages
	// that are ready to be sent at the same time. A browser takes as long for a frame as for ten
	// messages.
	batchProtocol = "kernos.batch"
)

// ServeHTTP implements [http.Handler]. It returns when the connection is upgraded; the
// connection continues until its peer leaves or Shutdown is called.
func (h *Handler) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	if !headerHas(r.Header, "Upgrade", "websocket") {
		rw.Header().Set("Upgrade", "websocket")
		http.Error(rw, "This address speaks WebSocket; connect with a WebSocket client", http.StatusUpgradeRequired)
		return
	}
	// The place is taken before the connection is upgraded: a refusal is an answer of HTTP.
	c := newConnection(h, blobs.RemoteOf(r.Context()))
	if _, reason := h.conns.Admit(c); h.conns.RefuseFor(rw, reason) {
		return
	}
	upgrader := ws.HTTPUpgrader{Timeout: h.opts.Patience, Protocol: protocolOf(r)}
	conn, buffered, agreed, err := upgrader.Upgrade(r, rw)
	if err != nil {
		h.conns.Leave(c)
		h.conns.Done()
		h.opts.Log.Info("an upgrade to WebSocket failed", "error", err)
		if conn != nil { // the upgrader has hijacked the connection, so the server won't close it
			_ = conn.Close()
		}
		return
	}
	_ = conn.SetDeadline(time.Time{}) // the server's own deadlines are not ours
	h.conns.Accept()
	early, _ := buffered.Reader.Peek(buffered.Reader.Buffered())
	c.batches = agreed.Protocol == batchProtocol
	c.begin(conn, bytes.Clone(early))
	c.sender = kernel.From(kernel.SenderIn(r.Context()).Principal(), "ws")
	go h.serve(c) // a new goroutine, so that nothing of the request stays in memory
}

// goingAway is the reason that peers of a stopping server get.
const goingAway = "The server is shutting down"

func (h *Handler) serve(c *connection) {
	defer h.conns.Done()
	stop := context.AfterFunc(c.sender.Principal().Life(), c.revoke)
	defer stop()
	err := h.service.Serve(kernel.ActFor(blobs.WithRemote(h.conns.Work(), c.remote), c.sender), c)
	c.close(ws.StatusGoingAway, goingAway)
	c.end()
	h.opts.Log.Debug("a WebSocket connection has ended", "error", err)
}

// Shutdown closes the service and drains all connections ([transport.Server.Drain]): nothing
// new is read, calls that have begun are finished and answered, and then the peers get
// the close code 1001. When ctx ends first, they are cut off, and the error is that of ctx, or names
// the calls that still run.
func (h *Handler) Shutdown(ctx context.Context) error {
	h.service.Close()
	return cmp.Or(h.conns.Drain(ctx), ctx.Err())
}

// protocolOf chooses the subprotocol, of which a browser wants one of those that it named:
// that of batches, ours, or else the one in which a token comes.
func protocolOf(r *http.Request) func(string) bool {
	for _, known := range []string{batchProtocol, protocol} {
		if headerHas(r.Header, "Sec-WebSocket-Protocol", known) {
			return func(p string) bool { return p == known }
		}
	}
	return func(p string) bool { return strings.HasPrefix(p, protocol+".") }
}

// headerHas reports whether a header, which is a list, has an element.
func headerHas(h http.Header, name, element string) bool {
	for _, line := range h.Values(name) {
		for part := range strings.SplitSeq(line, ",") {
			if strings.EqualFold(strings.TrimSpace(part), element) {
				return true
			}
		}
	}
	return false
}

// errLost is the end of a connection whose peer may come back.
var errLost = errors.New("the connection is lost")
