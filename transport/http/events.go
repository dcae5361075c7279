package http

import (
	"context"
	"net/http"
	"strconv"
	"sync"
	"time"

	"kernos/internal/jsonscan"
	"kernos/store/blobs"
	"kernos/transport/rpc"
)

// keepAlive is how often a comment is sent while a stream has nothing to say, so that what
// stands between does not take it for dead, and a peer that has left is noticed.
const keepAlive = 20 * time.Second

// follow answers with the items of a stream as server-sent events: the event is the item's
// type, the data is the item, and the id is that of the stream with the item's number. The
// last one is done.
//
// A peer that leaves before that may come back: the stream goes on, and is kept for a while.
func (s *Server) follow(w http.ResponseWriter, r *http.Request, sub *rpc.Subscription) {
	defer sub.Leave()
	gone, left := context.WithCancelCause(r.Context())
	defer left(nil)
	e := &eventStream{w: w, control: http.NewResponseController(w), remote: blobs.RemoteOf(r.Context()), id: sub.ID(), left: left}
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("X-Accel-Buffering", "no") // proxies are to pass on what comes
	h.Set("Kernos-Stream", e.id)
	if request := sub.Request(); request != "" {
		h.Set("Kernos-Request", string(request))
	}
	w.WriteHeader(http.StatusOK)
	// An event without data is ignored, but its id counts: a client that loses the connection before
	// the first item knows what to ask for.
	e.write(append(e.appendID(nil, sub.After()), '\n'), true)
	sub.Follow(e)
	for t := time.NewTicker(keepAlive); ; {
		select {
		case <-t.C:
			e.wake()
			continue
		case <-sub.Over():
		case <-gone.Done():
		}
		t.Stop()
		return
	}
}

// eventStream writes items as events. It implements [rpc.Reader].
type eventStream struct {
	w       http.ResponseWriter
	control *http.ResponseController
	remote  *blobs.Remote
	id      string                  // of the stream
	left    context.CancelCauseFunc // called when the peer does not read any more

	mu      sync.Mutex
	broken  bool
	written bool // since the last keep-alive
}

// appendID appends the line that says which item of which stream came.
func (e *eventStream) appendID(dst []byte, seq int64) []byte {
	dst = append(append(append(dst, "id: "...), e.id...), eventIDSign)
	return append(strconv.AppendInt(dst, seq, 10), '\n')
}

// Item writes an item. JSON has line breaks between its parts only, and here it has none:
// they would end the data.
func (e *eventStream) Item(i rpc.Item) {
	event := append(e.appendID(nil, i.Seq), "event: "+i.Type+"\ndata: "...)
	event = jsonscan.AppendCompact(event, e.remote.Outward(i.JSON))
	e.write(append(event, "\n\n"...), false)
}

// Flush sends what was written.
func (e *eventStream) Flush() { e.write(nil, true) }

func (e *eventStream) write(text []byte, flush bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.broken {
		return
	}
	e.written = true
	_, err := e.w.Write(text)
	if err == nil && flush {
		err = e.control.Flush()
	}
	if err != nil {
		e.broken = true
		e.left(err)
	}
}

// wake writes a comment, unless something was written since it was last called.
func (e *eventStream) wake() {
	e.mu.Lock()
	silent := !e.written
	e.written = false
	e.mu.Unlock()
	if silent {
		e.write([]byte(":\n\n"), true)
		e.mu.Lock()
		e.written = false
		e.mu.Unlock()
	}
}
