package http

import (
	"context"
	"net/http"

	"kernos/internal/jsonscan"
	"kernos/store/blobs"
	"kernos/transport"
	"kernos/transport/rpc"
)

// follow answers with the items of a stream as server-sent events: the event is the item's
// type, the data is the item, and the id is that of the stream with the item's number. The
// last one is done.
//
// A peer that leaves before that may come back: the stream continues, and is kept for a while.
func (s *Server) follow(w http.ResponseWriter, r *http.Request, sub *rpc.Subscription) {
	defer sub.Leave()
	gone, left := context.WithCancelCause(r.Context())
	defer left(nil)
	h := w.Header()
	h.Set("Kernos-Stream", sub.ID())
	if request := sub.Request(); request != "" {
		h.Set("Kernos-Request", string(request))
	}
	e := &eventStream{events: transport.BeginEvents(w, left), remote: blobs.RemoteOf(r.Context()), id: sub.ID()}
	defer e.events.End()
	// An event without data is ignored, but its id counts: a client that loses the connection before
	// the first item knows what to ask for.
	e.events.Write(append(e.appendID(nil, sub.After()), '\n'), true)
	sub.Follow(e)
	select {
	case <-sub.Over():
	case <-gone.Done():
	}
}

// eventStream writes items as events. It implements [rpc.Reader].
type eventStream struct {
	events *transport.Events
	remote *blobs.Remote
	id     string // the stream's id
}

// appendID appends the line that names the item and its stream.
func (e *eventStream) appendID(dst []byte, seq int64) []byte {
	return transport.AppendEventID(dst, e.id, eventIDSign, seq)
}

// Item writes an item. JSON has line breaks between its parts only, and here it has none:
// they would end the data.
func (e *eventStream) Item(i rpc.Item) {
	event := append(e.appendID(nil, i.Seq), "event: "+i.Type+"\ndata: "...)
	event = jsonscan.AppendCompact(event, e.remote.Outward(i.JSON))
	e.events.Write(append(event, "\n\n"...), false)
}

// Flush sends what was written.
func (e *eventStream) Flush() { e.events.Write(nil, true) }
