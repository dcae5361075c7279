package mcp

import (
	"bytes"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"kernos/internal/mcp"
	"kernos/transport"
	"kernos/transport/mcp/jsonrpc"
)

// An eventStream is the answer to one request of HTTP: one JSON text, or server-sent events as soon as
// something comes before the response. It implements [outlet].
//
// In a session its events have ids and are kept for a while: a client that has lost the connection may
// read the rest with another request.
type eventStream struct {
	session *session // nil in the stateless era
	id      int64

	mu       sync.Mutex
	done     chan struct{}       // closed at the end; nil until the goroutine of the request waits for it
	w        http.ResponseWriter // nil while no client reads
	events   *transport.Events   // to w; nil if it hasn't got any
	over     bool
	seq      int64
	final    []byte // the response, if it is the whole answer
	status   int    // HTTP status of the answer
	detached bool   // the goroutine of the request doesn't come to serve
}

func newEventStream(n *session, w http.ResponseWriter) *eventStream {
	e := &eventStream{session: n, w: w}
	if n != nil {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.last++
		e.id = n.last
		n.streams[e.id] = e
		delete(n.streams, e.id-maxStreams)
	}
	return e
}

// maxStreams is how many of the latest streams of a session can be resumed.
const maxStreams = 256

// notify implements [outlet].
func (e *eventStream) notify(frame []byte) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.event(frame)
}

// respond implements [outlet].
func (e *eventStream) respond(frame []byte, f *jsonrpc.Failure) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.over {
		return
	}
	if e.w != nil && e.events == nil {
		// The goroutine that waits in serve writes it: its stack is large enough already, which saves a
		// seventh of the time of a call.
		e.final, e.status = frame, statusOf(f, e.session == nil)
		if e.detached {
			e.writeFinal()
		}
	} else {
		e.event(frame)
	}
	e.end()
}

// late lets the goroutine that gives the response write it: that of the request is in a handler that
// doesn't return.
func (e *eventStream) late() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.detached = true
	e.writeFinal()
}

// writeFinal writes the response that is the whole answer. mu is held.
func (e *eventStream) writeFinal() {
	if e.final == nil || e.w == nil {
		return
	}
	if e.detached {
		h := e.w.Header()
		h.Set("Connection", "close") // the next request would wait for the handler
		h.Set("Content-Length", strconv.Itoa(len(e.final)))
	}
	transport.WriteJSON(e.w, e.status, e.final)
	if e.detached {
		_ = http.NewResponseController(e.w).Flush()
	}
	e.w = nil
}

// leave ends the stream without a response.
func (e *eventStream) leave() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.end()
}

// end is called with mu held.
func (e *eventStream) end() {
	if !e.over {
		e.over = true
		if e.done != nil {
			close(e.done)
		}
		e.events.End()
	}
}

// event writes an event. mu is held.
func (e *eventStream) event(frame []byte) {
	if e.over {
		return
	}
	var dst []byte
	if e.session != nil {
		e.seq++
		dst = e.appendID(dst, e.seq)
	}
	dst = append(append(append(dst, "data: "...), frame...), "\n\n"...)
	if e.session != nil {
		e.session.keep(loggedEvent{e.id, e.seq, dst})
	}
	e.write(dst)
}

func (e *eventStream) appendID(dst []byte, seq int64) []byte {
	return transport.AppendEventID(dst, strconv.FormatInt(e.id, 10), '-', seq)
}

// write writes to the client, if one reads. mu is held.
func (e *eventStream) write(text []byte) {
	if e.w == nil {
		return
	}
	if e.events == nil {
		e.events = transport.BeginEvents(e.w, nil)
	}
	if !e.events.Write(text, true) {
		e.w = nil
	}
}

// serve waits until the stream has ended, or its client has left, which it reports.
func (e *eventStream) serve(w http.ResponseWriter, r *http.Request, stopping <-chan struct{}) (left bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.over {
		left = e.wait(r.Context().Done(), stopping)
	}
	if !left && e.w == w {
		if e.final == nil && e.events == nil { // a call that was canceled has no response
			e.events = transport.BeginEvents(w, nil)
		}
		e.writeFinal()
	}
	if e.w == w { // another request may have taken its place
		e.events.End()
		e.w, e.events = nil, nil
	}
	return left
}

// wait waits until the stream has ended, or one of the channels is closed, which it reports. mu is held, but not
// while it waits.
func (e *eventStream) wait(gone, stopping <-chan struct{}) (left bool) {
	if e.done == nil { // another request may wait too
		e.done = make(chan struct{})
	}
	done := e.done
	e.mu.Unlock()
	defer e.mu.Lock()
	select {
	case <-done:
		return false
	case <-gone:
	case <-stopping:
	}
	return true
}

// A loggedEvent is an event that a client may want again.
type loggedEvent struct {
	stream, seq int64
	text        []byte
}

// maxLog is how many bytes of events a session keeps.
const maxLog = 128 << 10

// keep keeps an event.
func (n *session) keep(e loggedEvent) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.log = append(n.log, e)
	for n.bytes += len(e.text); n.bytes > maxLog && len(n.log) > 1; n.log = n.log[1:] {
		n.bytes -= len(n.log[0].text)
	}
}

// resume sends a client the events of a stream after the last one that it has, and those to come. It
// returns nil if the stream isn't known.
func (n *session) resume(last string, w http.ResponseWriter) *eventStream {
	streamText, seqText, _ := strings.Cut(last, "-")
	id, err := strconv.ParseInt(streamText, 10, 64)
	seq, err2 := strconv.ParseInt(seqText, 10, 64)
	n.mu.Lock()
	e := n.streams[id]
	n.mu.Unlock()
	if err != nil || err2 != nil || e == nil {
		return nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	n.mu.Lock()
	var missed [][]byte
	for _, one := range n.log {
		if one.stream == id && one.seq > seq {
			missed = append(missed, one.text)
		}
	}
	n.mu.Unlock()
	e.events.End()
	e.w, e.events = w, nil
	e.write(bytes.Join(missed, nil))
	if e.final != nil { // the client had left before it was written
		e.write(append(append(append(e.appendID(nil, e.seq+1), "data: "...), e.final...), "\n\n"...))
	}
	return e
}

// statusOf returns the status of HTTP for a response.
func statusOf(f *jsonrpc.Failure, modern bool) int {
	switch {
	case f == nil || !modern:
		return http.StatusOK
	case f.Code == mcp.MethodNotFound:
		return http.StatusNotFound
	case f.Code == mcp.MissingCapability || f.Code == mcp.HeaderMismatch:
		return http.StatusBadRequest
	}
	return http.StatusOK
}
