package http

import (
	"cmp"
	"crypto/tls"
	"fmt"
	"log/slog"
)

// A Certificate is what a server shows of itself over TLS, from two files. When they change,
// connections that are made from then on see the new one.
type Certificate struct {
	files watched[*tls.Certificate]
	log   *slog.Logger
}

// OpenCertificate reads a certificate, with those that lead from it to an authority, and its
// key, both in PEM. Later changes that can't be read go to the log, which may be nil.
func OpenCertificate(certFile, keyFile string, log *slog.Logger) (*Certificate, error) {
	log = cmp.Or(log, slog.New(slog.DiscardHandler))
	c := &Certificate{log: log}
	c.files.read = func() (*tls.Certificate, error) {
		pair, err := tls.LoadX509KeyPair(certFile, keyFile)
		if err != nil {
			return nil, fmt.Errorf("the certificate can't be used (--tls-cert %s, --tls-key %s): %w", certFile, keyFile, err)
		}
		return &pair, nil
	}
	if _, err := c.files.value(); err != nil {
		return nil, err
	}
	return c, nil
}

// Config returns the settings of a server with the certificate.
func (c *Certificate) Config() *tls.Config {
	return &tls.Config{
		MinVersion:     tls.VersionTLS12,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return c.current(), nil },
	}
}

// current returns the certificate in the files, or the one that was there before if it can't
// be read: while two files are replaced, one of them is wrong for a moment.
func (c *Certificate) current() *tls.Certificate {
	pair, err := c.files.value()
	if err != nil {
		c.log.Warn("the certificate has changed and can't be used; the one before it still is", "error", err)
	}
	return pair
}
