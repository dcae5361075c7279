package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"

	"kernos/internal/backoff"
	"kernos/internal/mcp"
	"kernos/internal/sse"
	"kernos/message"
)

const (
	maxRefusal        = 64 << 10        // bytes of an answer that isn't one of the protocol
	maxRedirects      = 5               //
	maxResumes        = 10              // times that the stream of one request is begun again without news
	maxRetry          = 5 * time.Minute // the longest pause that a server may ask for
	firstRetry        = time.Second     // if it asks for nothing
	notificationsTime = time.Second     // how long a connection waits for the stream of messages that belong to no request
)

// A NotAuthorized is the error for a server that wants credentials, or better ones.
type NotAuthorized struct {
	Status int
	Reason error // why they can't be had; nil if none were asked for
}

func (n *NotAuthorized) Error() string {
	if n.Reason != nil {
		return n.Reason.Error()
	}
	return fmt.Sprintf("it has refused the credentials, or their absence, with status %d", n.Status)
}

// Unwrap returns the reason.
func (n *NotAuthorized) Unwrap() error { return n.Reason }

// A remote is a server that is reached over streamable HTTP.
type remote struct {
	c       *Conn
	address *url.URL
	client  http.Client

	mu      sync.Mutex
	session string // the session id that a server of the stateful era has given
	token   string // the token that was sent last
}

func newHTTP(c *Conn) (carrier, error) {
	u, err := url.Parse(c.opts.URL)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, errors.New("the address of a server is http://host/path or https://host/path")
	}
	w := &remote{c: c, address: u}
	w.client = http.Client{CheckRedirect: w.redirect}
	if c.opts.HTTP != nil {
		w.client.Transport = c.opts.HTTP.Transport
	}
	return w, nil
}

// redirect lets a server send its client to another path, and to no other host: that would get the
// credentials.
func (w *remote) redirect(r *http.Request, via []*http.Request) error {
	if r.URL.Scheme != w.address.Scheme || r.URL.Host != w.address.Host || len(via) > maxRedirects {
		return fmt.Errorf("it sends its clients to %s; add that address", message.Clip(r.URL.Redacted(), 200))
	}
	return nil
}

func (w *remote) sessionID() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.session
}

// keep takes a token that is sent to the server out of what the server sends.
func (w *remote) keep(token string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if token != w.token {
		w.token = token
		w.c.keep(token)
	}
}

// newRequest returns a request with the headers that all have.
func (w *remote) newRequest(ctx context.Context, method string, body []byte) (*http.Request, error) {
	r, err := http.NewRequestWithContext(ctx, method, w.address.String(), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	maps.Copy(r.Header, w.c.opts.Header)
	if w.c.opts.OAuth != nil {
		token, err := w.c.opts.OAuth.Authorization(ctx)
		if err != nil {
			return nil, &NotAuthorized{Reason: err}
		}
		if token != "" {
			w.keep(token)
			r.Header.Set("Authorization", token)
		}
	}
	r.Header.Set("Accept", "application/json, text/event-stream")
	if method == http.MethodGet {
		r.Header.Set("Accept", "text/event-stream")
	}
	if len(body) > 0 {
		r.Header.Set("Content-Type", "application/json")
	}
	if revision := w.c.about.Revision; revision != "" {
		r.Header.Set(mcp.HeaderVersion, revision)
	}
	if id := w.sessionID(); id != "" {
		r.Header.Set(mcp.HeaderSession, id)
	}
	return r, nil
}

// do sends a request; if it is refused, once more with new credentials. The caller closes the body.
func (w *remote) do(ctx context.Context, method string, body []byte, more func(http.Header)) (*http.Response, error) {
	for try := 0; ; try++ {
		r, err := w.newRequest(ctx, method, body)
		if err != nil {
			return nil, err
		}
		if more != nil {
			more(r.Header)
		}
		answer, err := w.client.Do(r)
		if err != nil {
			if u, ok := errors.AsType[*url.Error](err); ok {
				err = u.Err
			}
			return nil, &broken{fmt.Errorf("it can't be reached: %w", err)}
		}
		if answer.StatusCode != http.StatusUnauthorized && answer.StatusCode != http.StatusForbidden {
			return answer, nil
		}
		if w.c.opts.OAuth == nil || try > 0 {
			_ = answer.Body.Close()
			return nil, &NotAuthorized{Status: answer.StatusCode}
		}
		if err := w.c.opts.OAuth.Authorize(ctx, r, answer); err != nil {
			return nil, &NotAuthorized{Status: answer.StatusCode, Reason: err}
		}
	}
}

// request implements carrier.
func (w *remote) request(ctx context.Context, out *outgoing, p *pending) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(w.c.life, cancel)()
	answer, err := w.do(ctx, http.MethodPost, out.text, func(h http.Header) {
		h.Set(mcp.HeaderMethod, out.method)
		if out.name != "" {
			h.Set(mcp.HeaderName, mcp.EncodeHeader(out.name))
		}
		maps.Copy(h, out.params)
	})
	if err != nil {
		return err
	}
	if id := answer.Header.Get(mcp.HeaderSession); id != "" && out.method == "initialize" {
		w.mu.Lock()
		w.session = id
		w.mu.Unlock()
	}
	var at position
	if (answer.StatusCode == http.StatusNotFound || answer.StatusCode == http.StatusBadRequest) && w.sessionID() != "" && out.method != "initialize" {
		_, said := w.read(answer, p, &at)
		if len(p.answer) > 0 {
			f := <-p.answer
			if f.Error == nil || aboutRequest(f.Error.Code) {
				p.answer <- f
				return nil
			}
			said = f.Error
		}
		err := &broken{fmt.Errorf("%w: %w", ErrForgotten, said)}
		w.c.end(err)
		return err
	}
	for tries := 0; ; tries++ {
		news, err := w.read(answer, p, &at)
		if len(p.answer) > 0 || err != nil {
			return err
		}
		if news {
			tries = 0
		}
		if at.last == "" || w.c.stateless || tries == maxResumes {
			return &broken{fmt.Errorf("it has ended its answer to %s before the result", out.method)}
		}
		if answer, err = w.resume(ctx, &at); err != nil {
			return err
		}
	}
}

// aboutRequest reports whether an error in a session is about the request. Others may be about the session: servers answer an
// unknown one with codes of their own, some under the id of the request.
func aboutRequest(code int) bool {
	switch code {
	case mcp.ParseError, mcp.MethodNotFound, mcp.InvalidParams, mcp.InternalError, mcp.ResourceNotFound:
		return true
	}
	return false
}

// position is how far a stream has been read.
type position struct {
	last  string        // the id of the last event
	retry time.Duration // to wait before it is read on
}

// resume reads the stream of a request on, after its connection has ended.
func (w *remote) resume(ctx context.Context, at *position) (*http.Response, error) {
	pause := backoff.Backoff{First: at.retry, Longest: at.retry}
	if at.retry == 0 {
		pause = backoff.Backoff{First: firstRetry, Longest: firstRetry}
	}
	if !pause.Wait(ctx.Done()) {
		return nil, ctx.Err()
	}
	return w.do(ctx, http.MethodGet, nil, func(h http.Header) { h.Set("Last-Event-ID", at.last) })
}

// read takes the messages of an answer until p has its own, and closes the answer. It reports
// whether there were any. A nil p takes all of them.
func (w *remote) read(answer *http.Response, p *pending, at *position) (news bool, err error) {
	defer func() { _ = answer.Body.Close() }()
	kind, _, _ := mime.ParseMediaType(answer.Header.Get("Content-Type"))
	var refusal frame
	switch {
	case answer.StatusCode/100 == 2 && kind == "text/event-stream":
		return w.readEvents(answer.Body, p, at)
	case kind == "application/json":
		body, err := io.ReadAll(io.LimitReader(answer.Body, maxFrame+1))
		if err != nil {
			return false, &broken{fmt.Errorf("its answer has ended early: %w", err)}
		}
		if len(body) > maxFrame {
			return false, &broken{fmt.Errorf("it has answered with more than %d bytes", maxFrame)}
		}
		_ = json.Unmarshal(body, &refusal) // it may be something else
		if err := w.c.receive(body); err == nil && (p == nil || len(p.answer) > 0) {
			return true, nil
		} else if answer.StatusCode/100 == 2 {
			if err == nil {
				err = errors.New("it has answered another request")
			}
			return false, &broken{err}
		}
	}
	const hint = "check that the address is the one that the server's documentation gives for MCP; it often ends with /mcp"
	if answer.StatusCode/100 == 2 {
		if p == nil || kind == "" {
			return false, nil
		}
		return false, &broken{fmt.Errorf("it has answered with %s, which isn't MCP; %s", kind[:min(len(kind), 64)], hint)}
	}
	text, _ := io.ReadAll(io.LimitReader(answer.Body, maxRefusal))
	err = fmt.Errorf("it has answered with status %d", answer.StatusCode)
	said := strings.TrimSpace(strings.ToValidUTF8(string(text), "�"))
	if refusal.Error != nil {
		said = refusal.Error.Message
	}
	if said != "" {
		err = fmt.Errorf("%w: %s", err, message.Clip(w.c.secrets.Load().Hide(said), 200))
	}
	if answer.StatusCode == http.StatusNotFound || answer.StatusCode == http.StatusMethodNotAllowed {
		err = fmt.Errorf("%w; %s", err, hint)
	}
	return false, &broken{err}
}

// readEvents takes the messages of a stream of events.
func (w *remote) readEvents(from io.Reader, p *pending, at *position) (news bool, err error) {
	for events := sse.NewReader(from, maxFrame); ; {
		e, err := events.Next()
		if errors.Is(err, sse.ErrTooLong) {
			return news, &broken{fmt.Errorf("it has sent an event of more than %d bytes", maxFrame)}
		}
		if err != nil {
			return news, nil //nolint:nilerr // the stream has ended, in one way or another
		}
		if e.ID != nil {
			at.last = string(e.ID)
		}
		if e.Retry >= 0 {
			at.retry = min(e.Retry, maxRetry)
		}
		if len(bytes.TrimSpace(e.Data)) == 0 || len(e.Name) > 0 && string(e.Name) != "message" {
			continue
		}
		news = true
		if err := w.c.receive(e.Data); err != nil {
			return news, &broken{err}
		}
		if p != nil && len(p.answer) > 0 {
			return news, nil
		}
	}
}

// send implements carrier.
func (w *remote) send(ctx context.Context, text []byte, method string) error {
	answer, err := w.do(ctx, http.MethodPost, text, func(h http.Header) {
		if method != "" {
			h.Set(mcp.HeaderMethod, method)
		}
	})
	if err != nil {
		return err
	}
	_ = answer.Body.Close()
	if answer.StatusCode/100 != 2 {
		return &broken{fmt.Errorf("it has answered a message that needs no answer with status %d", answer.StatusCode)}
	}
	return nil
}

// readNotifications implements carrier: a stream of its own carries what belongs to no request. It waits a while
// for the stream, since some servers drop what they would send before there is one.
func (w *remote) readNotifications() {
	open := make(chan struct{})
	opened := sync.OnceFunc(func() { close(open) })
	defer func() {
		patience := time.NewTimer(notificationsTime)
		defer patience.Stop()
		select {
		case <-open:
		case <-patience.C:
		}
	}()
	w.c.work.Go(func() {
		defer opened()
		pauses := backoff.Backoff{First: time.Second, Longest: time.Minute, Jitter: true}
		var at position
		for {
			answer, err := w.do(w.c.life, http.MethodGet, nil, func(h http.Header) {
				if at.last != "" {
					h.Set("Last-Event-ID", at.last)
				}
			})
			opened()
			if err == nil {
				if answer.StatusCode/100 == 4 { // the server doesn't have this stream
					_ = answer.Body.Close()
					return
				}
				if news, _ := w.read(answer, nil, &at); news {
					pauses.Reset()
				}
			}
			if w.c.life.Err() != nil || !pauses.Wait(w.c.life.Done()) {
				return
			}
			if at.last == "" {
				w.c.opts.Changed() // changes may have been missed meanwhile
			}
		}
	})
}

// close implements carrier. It ends the session at a server of the stateful era.
func (w *remote) close() {
	if w.sessionID() == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(w.c.life), closeTime)
	defer cancel()
	r, err := w.newRequest(ctx, http.MethodDelete, nil)
	if err != nil {
		return
	}
	if answer, err := w.client.Do(r); err == nil {
		_ = answer.Body.Close()
	}
}
