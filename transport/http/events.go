package httpd

import (
	"context"
	"net/http"
	"sync"
	"time"

	"kernos/internal/jsonscan"
	"kernos/store/blobs"
	"kernos/transport/rpc"
)

// keepAlive is how often a comment is sent while a stream has nothing to say, so that what
// stands between does not take it for dead, and a peer that has left is noticed.
const keepAlive = 20 * time.Second

// events answers one call with the items of its stream as server-sent events: the event is
// the item's type, and the data is the item. The last one is done.
func (s *Server) events(w http.ResponseWriter, r *http.Request) {
	if s.opts.RPC == nil {
		refuse(w, refusal{406, "no_events", "This server has no server-sent events; ask for application/json"})
		return
	}
	data, no := s.parameters(w, r)
	if no != nil {
		refuse(w, *no)
		return
	}
	ctx, release := s.lasting(r)
	defer release()
	gone, left := context.WithCancelCause(r.Context())
	defer left(nil)
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("X-Accel-Buffering", "no")
	w.WriteHeader(http.StatusOK)
	e := &eventStream{w: w, control: http.NewResponseController(w), remote: blobs.RemoteOf(ctx), left: left}
	e.write(nil) // the headers
	var waker sync.WaitGroup
	over := make(chan struct{})
	waker.Go(func() { e.keepAlive(over) })
	s.opts.RPC.Call(ctx, rpc.Call{
		Namespace: r.PathValue("module"), Method: r.PathValue("method"), Params: e.remote.Inward(data), Gone: gone.Done(),
		Correlation: r.Header.Get("X-Correlation-Id"), IdempotencyKey: r.Header.Get("Idempotency-Key"),
	}, e.item)
	close(over)
	waker.Wait()
}

// eventStream writes items as events.
type eventStream struct {
	w       http.ResponseWriter
	control *http.ResponseController
	remote  *blobs.Remote
	left    context.CancelCauseFunc // called when the peer does not read any more

	mu      sync.Mutex
	broken  bool
	written bool // since somebody last looked
}

// item writes an item. JSON has line breaks between its parts only, and here it has none:
// they would end the data.
func (e *eventStream) item(i rpc.Item) {
	event := append([]byte("event: "+i.Type+"\ndata: "), jsonscan.AppendCompact(nil, e.remote.Outward(i.JSON))...)
	e.write(append(event, "\n\n"...))
}

func (e *eventStream) write(text []byte) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.broken {
		return
	}
	e.written = true
	_, err := e.w.Write(text)
	if err == nil {
		err = e.control.Flush()
	}
	if err != nil {
		e.broken = true
		e.left(err)
	}
}

// keepAlive writes a comment now and then while nothing else is written.
func (e *eventStream) keepAlive(over <-chan struct{}) {
	t := time.NewTicker(keepAlive)
	defer t.Stop()
	for {
		select {
		case <-t.C:
		case <-over:
			return
		}
		e.mu.Lock()
		silent := !e.written
		e.written = false
		e.mu.Unlock()
		if silent {
			e.write([]byte(":\n\n"))
		}
	}
}
