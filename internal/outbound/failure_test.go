package outbound_test

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"syscall"
	"testing"

	"kernos/internal/outbound"
)

func TestFailuresAreExplained(t *testing.T) {
	for _, c := range []struct {
		err   error
		code  int
		words string
	}{
		{&net.DNSError{Name: "a.example", IsNotFound: true}, 502, "The host a.example doesn't exist"},
		{&net.DNSError{Name: "a.example", IsTimeout: true}, 504, "The server took too long at first"},
		{&net.DNSError{Name: "a.example"}, 502, "The host a.example can't be resolved"},
		{context.DeadlineExceeded, 504, "The server took too long at first"},
		{syscall.ECONNREFUSED, 502, "Nothing listens there: the connection was refused"},
		{syscall.EHOSTUNREACH, 502, "No route to the host"},
		{&tls.CertificateVerificationError{Err: errors.New("expired")}, 502, "The server's certificate is not trusted"},
		{http.ErrSchemeMismatch, 502, "The server does not speak TLS there; is it http?"},
		{io.ErrUnexpectedEOF, 502, "The connection ended at first"},
		{syscall.ECONNRESET, 502, "The connection ended at first"},
		{errors.New("malformed"), 502, ""},
	} {
		wrapped := &url.Error{Op: "Get", URL: "https://a.example/", Err: c.err}
		if code, words := outbound.Explain(wrapped, "server", "at first"); code != c.code || words != c.words {
			t.Errorf("%v: %d %q, want %d %q", c.err, code, words, c.code, c.words)
		}
	}
}
