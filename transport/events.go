package transport

import (
	"net/http"
	"strconv"
	"sync"
	"time"
)

// keepAlive is how often a comment is sent on a stream of events that is idle, so that proxies
// between don't take it for dead, and a peer that has left is noticed.
const keepAlive = 20 * time.Second

// Events are the server-sent events that answer a request of HTTP. They are safe for concurrent use.
type Events struct {
	w      http.ResponseWriter
	broken func(error)

	mu      sync.Mutex
	ended   bool
	written bool // an event was sent after the last comment
	alive   *time.Timer
}

// BeginEvents sends the headers. The function is called once with the error of a peer that no longer
// reads; it may be nil, and must not call the events. The handler of the request calls End before it
// returns.
func BeginEvents(w http.ResponseWriter, broken func(error)) *Events {
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("X-Accel-Buffering", "no") // proxies are to pass on what comes
	w.WriteHeader(http.StatusOK)
	e := &Events{w: w, broken: broken}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.alive = time.AfterFunc(keepAlive, e.wake)
	return e
}

// Write writes whole events, and with flush sends them and those before. It reports whether the peer
// can still read.
func (e *Events) Write(text []byte, flush bool) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.written = true
	return e.write(text, flush)
}

// write is Write with mu held.
func (e *Events) write(text []byte, flush bool) bool {
	if e.ended {
		return false
	}
	_, err := e.w.Write(text)
	if err == nil && flush {
		err = http.NewResponseController(e.w).Flush()
	}
	if err != nil {
		e.end()
		if e.broken != nil {
			e.broken(err)
		}
	}
	return err == nil
}

// wake writes a comment, unless something was written since it was last called.
func (e *Events) wake() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.written {
		e.write([]byte(":\n\n"), true)
	}
	e.written = false
	if !e.ended {
		e.alive.Reset(keepAlive)
	}
}

// End ends writing. Nil events have ended.
func (e *Events) End() {
	if e != nil {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.end()
	}
}

// end is End with mu held.
func (e *Events) end() {
	e.ended = true
	e.alive.Stop()
}

// AppendEventID appends the line that names an event: the stream, a sign, and its number there.
func AppendEventID(dst []byte, stream string, sign byte, seq int64) []byte {
	dst = append(append(append(dst, "id: "...), stream...), sign)
	return append(strconv.AppendInt(dst, seq, 10), '\n')
}
