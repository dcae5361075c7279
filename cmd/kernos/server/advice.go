package server

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"kernos/client"
)

// overTLS reports whether a URL uses TLS.
func overTLS(address string) bool {
	return strings.HasPrefix(address, "wss:") || strings.HasPrefix(address, "https:")
}

// acceptsTLS reports whether the server at a URL completes a TLS handshake.
func acceptsTLS(address string) bool {
	u, err := url.Parse(address)
	if err != nil {
		return false
	}
	dialer := tls.Dialer{NetDialer: &net.Dialer{Timeout: 2 * time.Second}, Config: &tls.Config{InsecureSkipVerify: true}} // nothing is sent
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	conn, err := dialer.DialContext(ctx, "tcp", net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), "80")))
	if err != nil {
		return false
	}
	_ = conn.Close()
	return true
}

// TLSAdvice returns the next step after an error that comes from TLS, or from the lack of it; ""
// for other errors.
func (s *Server) TLSAdvice(err error) string {
	if r, ok := errors.AsType[*client.Refused](err); ok && r.Status == http.StatusBadRequest && !overTLS(r.URL) && acceptsTLS(r.URL) {
		return "the server speaks TLS there: write wss:// in place of ws://, or https:// in place of http://"
	}
	_, garbled := errors.AsType[tls.RecordHeaderError](err)
	if garbled || errors.Is(err, http.ErrSchemeMismatch) {
		return "the server does not speak TLS there: write ws:// in place of wss://, or http:// in place of https://"
	}
	if e, ok := errors.AsType[x509.HostnameError](err); ok {
		return fmt.Sprintf("the certificate is for %s: call the server by one of these names, or have it certified for %s", NamesOf(e.Certificate), e.Host)
	}
	if e, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
		switch {
		case e.Cert == nil:
			return "check the certificate of the server"
		case s.Target.CAFile == "":
			return fmt.Sprintf("it is signed by %s. If that is right, say where their certificate is: %s", IssuerOf(e.Cert), s.Setting("ca-file", "KERNOS_CA_FILE"))
		}
		return fmt.Sprintf("it is signed by %s, whose certificate is not in %s: get the right one from the operator of the server, then %s", IssuerOf(e.Cert), s.Target.CAFile, s.Setting("ca-file", "KERNOS_CA_FILE"))
	}
	if e, ok := errors.AsType[x509.CertificateInvalidError](err); ok {
		if e.Reason == x509.Expired && e.Cert != nil {
			return fmt.Sprintf("it is valid from %s to %s: give the server a new one (kernos serve reads --tls-cert again when it changes), or set the clock of this machine", Day(e.Cert.NotBefore), Day(e.Cert.NotAfter))
		}
		return "have a new certificate made for the server"
	}
	if _, ok := errors.AsType[*client.Untrusted](err); ok {
		return "check the certificate of the server"
	}
	return ""
}

// NamesOf lists the names that a certificate is for.
func NamesOf(c *x509.Certificate) string {
	names := slices.Clone(c.DNSNames)
	for _, ip := range c.IPAddresses {
		names = append(names, ip.String())
	}
	if len(names) == 0 {
		return "no name at all"
	}
	return strings.Join(names, ", ")
}

// IssuerOf names the signer of a certificate.
func IssuerOf(c *x509.Certificate) string {
	if c.Issuer.String() == c.Subject.String() {
		return "itself (" + c.Issuer.String() + ")"
	}
	return c.Issuer.String()
}

// Day returns the date of a time.
func Day(t time.Time) string { return t.Local().Format(time.DateOnly) }
