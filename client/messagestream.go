package client

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
)

// A MessageStream carries messages in both directions, one per line. After CloseWrite the server answers
// everything, and ends the stream. After Close, queries that the server still works on are cancelled, and
// commands are completed.
type MessageStream struct {
	answers  io.ReadCloser
	requests *io.PipeWriter
	cut      func()
}

// Read reads answers. The error is io.EOF only if the server has ended the stream in order.
func (s *MessageStream) Read(p []byte) (int, error) { return s.answers.Read(p) }

// Write sends requests.
func (s *MessageStream) Write(p []byte) (int, error) { return s.requests.Write(p) }

// CloseWrite ends writing. What the server still sends can be read.
func (s *MessageStream) CloseWrite() error { return s.requests.Close() }

// Close ends the stream.
func (s *MessageStream) Close() error {
	s.cut()
	return errors.Join(s.requests.Close(), s.answers.Close())
}

// Messages opens a stream of messages to the target. Ctx bounds that and has no effect on the stream later.
// The error is an *Unreachable, an *Untrusted or a *Refused.
func (t Target) Messages(ctx context.Context) (*MessageStream, error) {
	life, cut := context.WithCancel(context.WithoutCancel(ctx))
	e, r, err := t.request(life, "/v1/messages")
	if err != nil {
		cut()
		return nil, err
	}
	body, write := io.Pipe()
	r.Method, r.Body = http.MethodPost, body
	r.Header.Set("Content-Type", "application/x-ndjson")
	e.transport.DisableKeepAlives = true
	forget := context.AfterFunc(ctx, cut)
	response, err := e.transport.RoundTrip(r)
	if err == nil && response.StatusCode == http.StatusOK && forget() {
		return &MessageStream{response.Body, write, cut}, nil
	}
	_ = write.Close()
	switch {
	case err != nil:
		err = e.failure(err)
	case response.StatusCode != http.StatusOK:
		err = e.refusal(response)
	}
	cut()
	return nil, cmp.Or(ctx.Err(), err)
}
