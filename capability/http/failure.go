package http

import (
	"errors"
	"net/url"

	"kernos/internal/outbound"
	"kernos/message"
)

type phase string

const (
	asking  phase = "before the server had answered"
	reading phase = "while the body was coming"
)

// A networkError is a failure of the network, or of the server at the other end.
type networkError struct {
	phase phase
	err   error
}

func (e *networkError) Error() string { return e.err.Error() }
func (e *networkError) Unwrap() error { return e.err }

// isNetwork reports whether another try may go better.
func isNetwork(err error) bool {
	e, ok := errors.AsType[*networkError](err)
	if !ok || errors.Is(e, errRedirects) || errors.As(e, new(*outbound.Refused)) {
		return false
	}
	return !outbound.IsUntrusted(e)
}

// failure returns the error for a request that failed, with its causes. Late means that its time
// was over.
func (r *request) failure(err error, late bool) error {
	e, isNetwork := errors.AsType[*networkError](err)
	out := &message.Error{Code: 502, Message: "Fetch failed"}
	switch refused, ok := errors.AsType[*outbound.Refused](err); {
	case late:
		at := asking
		if isNetwork {
			at = e.phase
		}
		out.Cause = message.Errorf(504, "The timeout of %v passed %s; a longer one, up to %d ms, can be given as timeout", r.timeout, at, maxTimeout.Milliseconds())
	case !isNetwork:
		if known, ok := errors.AsType[*message.Error](err); ok {
			return known.Map(r.secrets.Hide)
		}
		return err // an error of the disk, or of what opens secrets
	case ok:
		out.Code, out.Message = 403, "Operation not allowed"
		out.Cause = message.Errorf(403, "The policy for connections refuses %s", refused.Error())
	default:
		out.Cause = reason(e)
		if r.secrets != nil {
			out.Cause.Cause = nil // this cause quotes what the server sent, in parts and with escapes
		}
	}
	if out.Cause.Code == 504 {
		out.Code, out.Message = 504, "Fetch timed out"
	}
	out.Message += ": " + r.method + " " + where(r.url)
	return out.Map(r.secrets.Hide)
}

// reason describes a failure: what it means, and as its cause the text of the error itself.
func reason(e *networkError) *message.Error {
	err := e.err
	if outer, ok := errors.AsType[*url.Error](err); ok {
		err = outer.Err // leaves out the URL, which may hold a token
	}
	text := err.Error()
	if errors.Is(err, errRedirects) {
		return &message.Error{Code: 502, Message: "The redirects do not end: " + text}
	}
	code, words := outbound.Explain(err, "server", string(e.phase))
	switch {
	case words != "":
		words = message.Clip(words, 300) // a host may be called anything
	case e.phase == reading:
		words = "The body could not be read to its end"
	default:
		words = "The server could not be asked, or its answer isn't HTTP"
	}
	return &message.Error{Code: code, Message: words, Cause: &message.Error{Code: code, Message: text}}
}
