package client

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"os"
)

// readAuthorities reads the certificates in a file. One that can't be read is not passed
// over: the user relies on it.
func readAuthorities(path string) (*x509.CertPool, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("the certificates that may sign for the server can't be read: %w", err)
	}
	pool := x509.NewCertPool()
	found := 0
	for rest := text; ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		if block.Type != "CERTIFICATE" {
			continue
		}
		certificate, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("%s has a certificate that can't be read: %w", path, err)
		}
		pool.AddCert(certificate)
		found++
	}
	switch {
	case found > 0:
		return pool, nil
	case bytes.Contains(text, []byte("PRIVATE KEY-----")):
		return nil, fmt.Errorf("%s has a private key, and no certificate; a client needs the certificate only", path)
	}
	return nil, fmt.Errorf("%s has no certificate in PEM, which begins with -----BEGIN CERTIFICATE-----", path)
}

// An Untrusted is the error of a server whose certificate does not show that it is the one
// that is meant. Nothing was sent to it.
type Untrusted struct {
	URL string
	Err error // an x509 error, such as an x509.UnknownAuthorityError
}

func (e *Untrusted) Error() string {
	return fmt.Sprintf("the certificate of %s is not trusted: %v", e.URL, e.Err)
}

// Unwrap returns the reason.
func (e *Untrusted) Unwrap() error { return e.Err }
