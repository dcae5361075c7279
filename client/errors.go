package client

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// ErrClosed is the error of calls on a client, or of a stream, that was closed.
var ErrClosed = errors.New("the client was closed")

// An Unreachable is the error of a server that can't be connected to.
type Unreachable struct {
	URL string
	Err error
}

func (e *Unreachable) Error() string {
	return fmt.Sprintf("can't reach %s: %v", e.URL, e.Err)
}

// Unwrap returns the reason.
func (e *Unreachable) Unwrap() error { return e.Err }

// A Refused is the error of a server that answers, but opens no WebSocket.
type Refused struct {
	URL    string
	Status int    // the status of HTTP
	Text   string // the server's answer, if it is short
}

func (e *Refused) Error() string {
	reason := e.body().Message
	if reason != "" && strings.HasPrefix(e.URL, "unix:") {
		return reason // the user's own daemon gave the reason
	}
	text := fmt.Sprintf("%s answers with HTTP status %d", e.URL, e.Status)
	if said := cmp.Or(reason, strings.TrimSpace(e.Text)); said != "" {
		text += ": " + said
	}
	return text
}

// Name returns what the server calls its reason, such as too_many_connections; "" if it has no name.
func (e *Refused) Name() string { return e.body().Name }

func (e *Refused) body() (b struct{ Name, Message string }) {
	_ = json.Unmarshal([]byte(e.Text), &b) // other servers may write anything
	return b
}

// Forbidden reports whether the server wants another token, or none of ours.
func (e *Refused) Forbidden() bool { return e.Status == 401 || e.Status == 403 }

// passing reports whether the server may accept the client a moment later: it is overloaded, or
// restarting.
func (e *Refused) passing() bool { return e.Status == 429 || e.Status == 503 }

// A Lost is the error of a call whose connection broke. What was asked for may have
// happened.
type Lost struct{ Err error }

func (e *Lost) Error() string {
	return fmt.Sprintf("the connection was lost, and what was asked for may have happened: %v", e.Err)
}

// Unwrap returns the reason.
func (e *Lost) Unwrap() error { return e.Err }

func asLost(err error) error {
	if l, ok := errors.AsType[*Lost](err); ok {
		return l
	}
	return &Lost{Err: err}
}

// An RPCError is an error of JSON-RPC itself: the request did not become a call.
type RPCError struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}

func (e *RPCError) Error() string { return fmt.Sprintf("%s (JSON-RPC error %d)", e.Message, e.Code) }

// A Failure is the error of a call that was answered with an error.
type Failure struct {
	Text     string
	Code     int       // 0 if the server gives none
	Guidance *Guidance // how to correct the call; may be nil
}

func (e *Failure) Error() string { return e.Text }

// A Broken is the error of a stream that does not keep to the rules of the protocol.
type Broken struct{ Text string }

func (e *Broken) Error() string { return "the server breaks the protocol: " + e.Text }
