package http

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"kernos/store/blobs"
	"kernos/transport"
)

// messages answers the messages in the body of a request, one per line, as they arrive.
func (s *Server) messages(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/x-ndjson")
	w.Header().Set("X-Accel-Buffering", "no") // proxies are to pass on what comes
	control := http.NewResponseController(w)
	_ = control.EnableFullDuplex() // a writer without this method is full duplex anyway, or answers after the body
	_ = control.SetReadDeadline(time.Time{})
	f := &flow{s: s, w: w, control: control, body: r.Body, begun: time.Now()}
	if !strings.EqualFold(r.Header.Get("Expect"), "100-continue") {
		f.begin() // a peer that reads while it sends waits for this
	}
	f.watch()
	defer f.unwatch()
	stop := context.AfterFunc(s.requests.Stopping(), func() { f.interrupt(transport.ErrStopped) })
	defer stop()

	ctx, release := s.lasting(r)
	defer release()
	remote := blobs.RemoteOf(ctx)
	opts := &transport.Options{
		Open: &f.open, Pacer: s.requests.Pacer(), Inward: remote.Inward, Outward: remote.Outward,
		Left: func(finished <-chan struct{}) bool { return f.left(r.Context().Done(), finished) },
	}
	_, err := transport.Serve(ctx, s.k, f, f, opts)
	switch {
	case errors.Is(err, transport.ErrIdle):
		_, _ = f.Write(transport.LastLine(s.k, transport.IdleError(s.opts.Idle, "send another request")))
	case err != nil:
		s.opts.Log.Debug("a stream of messages broke", "error", err)
		f.interrupt(err) // the rest of the request is not read
	}
	f.begin() // no answer may have been sent
}

// flow is a request and its answer as two streams.
type flow struct {
	s       *Server
	w       http.ResponseWriter
	control *http.ResponseController
	body    io.Reader
	begun   time.Time

	open   atomic.Int64 // requests that are not answered
	active atomic.Int64 // the time of the last read or write, in nanoseconds after begun
	start  sync.Once

	mu    sync.Mutex
	end   error // why reading was interrupted
	ended bool  // reading is over: the read deadline belongs to net/http
	timer *time.Timer
}

// begin sends the headers of the answer.
func (f *flow) begin() {
	f.start.Do(func() {
		f.w.WriteHeader(http.StatusOK)
		_ = f.control.Flush()
	})
}

// Read implements [io.Reader].
func (f *flow) Read(p []byte) (int, error) {
	n, err := f.body.Read(p)
	f.active.Store(int64(time.Since(f.begun)))
	f.begin()
	if n > 0 || err == nil {
		return n, nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if err == io.EOF {
		f.ended = true
		return 0, err
	}
	if f.end != nil {
		err = f.end
	}
	return 0, err
}

// Write implements [io.Writer].
func (f *flow) Write(p []byte) (int, error) {
	f.begin()
	n, err := f.w.Write(p)
	if err == nil {
		err = f.control.Flush()
	}
	f.active.Store(int64(time.Since(f.begun)))
	return n, err
}

// interrupt makes reading fail with an error. What a request still has to send is not read
// after that, whatever it is.
func (f *flow) interrupt(why error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ended || f.end != nil {
		return
	}
	f.end = why
	_ = f.control.SetReadDeadline(time.Unix(1, 0))
}

// left waits until the peer is gone, or until finished is closed. The end of the request's
// context shows it, but not after reading was interrupted: then it ends with that.
func (f *flow) left(gone, finished <-chan struct{}) bool {
	f.mu.Lock()
	if f.end != nil {
		gone = nil
	}
	f.mu.Unlock()
	select {
	case <-gone:
		return true
	case <-finished:
		return false
	}
}

// watch interrupts the stream when nothing has happened on it for too long, and nothing is
// under way.
func (f *flow) watch() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.timer = time.AfterFunc(f.s.opts.Idle, func() {
		silent := time.Since(f.begun) - time.Duration(f.active.Load())
		if f.open.Load() > 0 {
			silent = 0
		}
		if silent >= f.s.opts.Idle {
			f.interrupt(transport.ErrIdle)
			return
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		if !f.ended && f.end == nil {
			f.timer.Reset(f.s.opts.Idle - silent)
		}
	})
}

func (f *flow) unwatch() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ended = true
	f.timer.Stop()
}
