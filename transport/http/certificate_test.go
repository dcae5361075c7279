package http

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// certify writes a certificate of this name for this machine, and its key, and returns who
// trusts it.
func certify(t testing.TB, dir, name string) (cert, key string, pool *x509.CertPool) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotBefore: time.Unix(0, 0), NotAfter: time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, DNSNames: []string{"localhost"}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	secretKey, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for file, block := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: der}, key: {Type: "PRIVATE KEY", Bytes: secretKey}} {
		if err := os.WriteFile(file+".new", pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(file+".new", file); err != nil {
			t.Fatal(err)
		}
	}
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool = x509.NewCertPool()
	pool.AddCert(parsed)
	return cert, key, pool
}

// openTLS is open with TLS.
func openTLS(t testing.TB, o siteOptions) *site {
	t.Helper()
	cert, key, pool := certify(t, t.TempDir(), "test")
	c, err := OpenCertificate(cert, key, nil)
	if err != nil {
		t.Fatal(err)
	}
	o.cert = c
	if o.client == nil {
		o.client = &http.Transport{ForceAttemptHTTP2: true}
	}
	o.client.TLSClientConfig = &tls.Config{RootCAs: pool}
	return open(t, o)
}

func TestTLS(t *testing.T) {
	for _, h2 := range []bool{false, true} {
		s := openTLS(t, siteOptions{guard: &Guard{Authenticate: authenticate}, client: &http.Transport{ForceAttemptHTTP2: h2}})
		if a := s.do("POST", "/v1/call/kernel/ping", `{"payload":7}`, "Authorization", "Bearer "+secret, "Origin", s.url); a.status != 200 || a.body != `{"payload":7}` {
			t.Errorf("HTTP/2 %t: %d %s", h2, a.status, a.body)
		}
		if a := s.do("GET", "/metrics", "", "Origin", "http://"+s.addr); a.status != 403 {
			t.Errorf("HTTP/2 %t, a page that did not come over TLS: %d %s", h2, a.status, a.body)
		}
	}
}

func TestACertificateThatChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		cert, key, _ := certify(t, dir, "first")
		c, err := OpenCertificate(cert, key, nil)
		if err != nil {
			t.Fatal(err)
		}
		name := func() string {
			t.Helper()
			time.Sleep(lookAgain)
			return c.current().Leaf.Subject.CommonName
		}
		if got := name(); got != "first" {
			t.Errorf("it is %s", got)
		}
		certify(t, dir, "second")
		if got := name(); got != "second" {
			t.Errorf("after a change it is %s", got)
		}
		if err := os.WriteFile(key, []byte("nonsense"), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := name(); got != "second" {
			t.Errorf("with an invalid key it is %s", got)
		}
		certify(t, dir, "third")
		if got := name(); got != "third" {
			t.Errorf("after it was mended it is %s", got)
		}
	})
}

func TestACertificateThatWontDo(t *testing.T) {
	cert, _, _ := certify(t, t.TempDir(), "one")
	_, other, _ := certify(t, t.TempDir(), "other")
	for _, key := range []string{other, "nosuch"} {
		if _, err := OpenCertificate(cert, key, nil); err == nil || !strings.Contains(err.Error(), "--tls-key "+key) {
			t.Errorf("%s: %v", key, err)
		}
	}
}
