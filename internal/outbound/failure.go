package outbound

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"syscall"
)

// Explain returns a sentence about why a request got no whole answer, or "" if the error is of no known kind. The sentence
// names the other end as the caller does, such as "server", and for what ended early the phase in which it did, such as
// "before the server had answered". The code is 504 if time ran out, and 502 otherwise.
func Explain(err error, server, phase string) (code int, words string) {
	dns, isDNS := errors.AsType[*net.DNSError](err)
	timeout, isNet := errors.AsType[net.Error](err)
	switch {
	case isDNS && dns.IsNotFound:
		return 502, "The host " + dns.Name + " doesn't exist"
	case isNet && timeout.Timeout() || errors.Is(err, context.DeadlineExceeded):
		return 504, "The " + server + " took too long " + phase
	case isDNS:
		return 502, "The host " + dns.Name + " can't be resolved"
	case errors.Is(err, syscall.ECONNREFUSED):
		return 502, "Nothing listens there: the connection was refused"
	case errors.Is(err, syscall.ENETUNREACH), errors.Is(err, syscall.EHOSTUNREACH):
		return 502, "No route to the host"
	case IsUntrusted(err):
		return 502, "The " + server + "'s certificate is not trusted"
	case errors.As(err, new(tls.RecordHeaderError)), errors.Is(err, http.ErrSchemeMismatch):
		return 502, "The " + server + " does not speak TLS there; is it http?"
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE),
		errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return 502, "The connection ended " + phase
	}
	return 502, ""
}

// IsUntrusted reports whether a request failed because the server's certificate is not trusted, which another try doesn't
// change.
func IsUntrusted(err error) bool { return errors.As(err, new(*tls.CertificateVerificationError)) }
