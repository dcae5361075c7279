package client

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"kernos/internal/testkit"
)

// newTLSServer is newServer with a certificate, which show replaces.
func newTLSServer(t testing.TB, certFile, keyFile string) (s *fakeServer, show func(certFile, keyFile string)) {
	t.Helper()
	var shown atomic.Pointer[tls.Certificate]
	show = func(certFile, keyFile string) {
		t.Helper()
		pair, err := tls.LoadX509KeyPair(certFile, keyFile)
		if err != nil {
			t.Fatal(err)
		}
		shown.Store(&pair)
	}
	show(certFile, keyFile)
	s = &fakeServer{t: t, answer: func(s *session, c call) {
		s.ack(c.ID, "7")
		s.item("7", `{"service_hash":"h","provenance":[],"type":"data","content_type":"x","data":1}`)
		s.item("7", `{"service_hash":"h","provenance":[],"type":"done"}`)
	}}
	s.http = httptest.NewUnstartedServer(s)
	s.http.TLS = &tls.Config{GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
		return &tls.Config{Certificates: []tls.Certificate{*shown.Load()}}, nil
	}}
	s.http.Config.ErrorLog = log.New(io.Discard, "", 0) // clients that leave are what is tested
	s.http.StartTLS()
	s.target = Target{URL: "wss" + s.http.URL[len("https"):], Patience: testkit.Patience}
	t.Cleanup(s.close)
	return s, show
}

func TestTrust(t *testing.T) {
	later := time.Now().Add(time.Hour)
	ours, others := testkit.NewAuthority(t, "Ours"), testkit.NewAuthority(t, "Others")
	cert, key := ours.Certify(t, later, "127.0.0.1")
	s, _ := newTLSServer(t, cert, key)
	both := filepath.Join(t.TempDir(), "both.pem")
	first, err := os.ReadFile(others.File)
	if err != nil {
		t.Fatal(err)
	}
	second, err := os.ReadFile(ours.File)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(both, append(first, second...), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{ours.File, both, cert} { // the certificate may stand for itself
		target := s.target
		target.CAFile = file
		c, err := Dial(testContext(t), target)
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		if data, err := c.Call(testContext(t), "x_y"); err != nil || string(data) != "1" {
			t.Errorf("got %s, %v", data, err)
		}
		_ = c.Close()
		if _, _, err := target.Get(testContext(t), "/"); err != nil {
			t.Errorf("plain HTTP: %v", err)
		}
	}
	// What TLS says is kept, but for whom to trust.
	target := s.target
	target.CAFile, target.TLS = ours.File, &tls.Config{ServerName: "elsewhere"}
	_, err = Dial(testContext(t), target)
	if _, ok := errors.AsType[x509.HostnameError](err); !ok {
		t.Errorf("another name: got %v", err)
	}
	if target.TLS.RootCAs != nil {
		t.Error("the settings of the caller were changed")
	}
}

func TestTrustThatIsMissing(t *testing.T) {
	later := time.Now().Add(time.Hour)
	ours, others := testkit.NewAuthority(t, "Ours"), testkit.NewAuthority(t, "Others")
	for name, c := range map[string]struct {
		until time.Time
		host  string
		file  string
		is    func(error) bool
	}{
		"signed by another authority": {later, "127.0.0.1", others.File, is[x509.UnknownAuthorityError]},
		"not known here":              {later, "127.0.0.1", "", is[x509.UnknownAuthorityError]},
		"for another name":            {later, "example.org", ours.File, is[x509.HostnameError]},
		"expired":                     {time.Now().Add(-time.Hour), "127.0.0.1", ours.File, is[x509.CertificateInvalidError]},
	} {
		t.Run(name, func(t *testing.T) {
			cert, key := ours.Certify(t, c.until, c.host)
			s, _ := newTLSServer(t, cert, key)
			s.target.CAFile = c.file
			_, err := Dial(testContext(t), s.target)
			if !is[*Untrusted](err) || !c.is(err) || !strings.Contains(err.Error(), "the certificate of "+s.target.URL+" is not trusted") {
				t.Errorf("got %v", err)
			}
			if len(s.asked()) > 0 {
				t.Errorf("it was asked for %v", s.asked())
			}
		})
	}
}

func is[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}

// A server that comes back with another certificate is not the same, and is not tried again
// and again.
func TestTrustThatIsLost(t *testing.T) {
	later := time.Now().Add(time.Hour)
	ours := testkit.NewAuthority(t, "Ours")
	cert, key := ours.Certify(t, later, "127.0.0.1")
	s, show := newTLSServer(t, cert, key)
	s.target.CAFile, s.target.Patience = ours.File, time.Hour
	c := s.dial()
	show(testkit.NewAuthority(t, "Others").Certify(t, later, "127.0.0.1"))
	testkit.Until(t, "it is noticed", func() bool {
		s.drop()
		_, err := c.Call(testContext(t), "x_y")
		return is[*Untrusted](err)
	})
}

func TestTrustInAFileThatWillNotDo(t *testing.T) {
	ours := testkit.NewAuthority(t, "Ours")
	_, key := ours.Certify(t, time.Now(), "x")
	dir := t.TempDir()
	for name, text := range map[string]string{"empty": "", "broken": "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct{ url, file, want string }{
		{"wss://127.0.0.1:1/", filepath.Join(dir, "none"), "can't be read"},
		{"wss://127.0.0.1:1/", filepath.Join(dir, "empty"), "no certificate in PEM"},
		{"wss://127.0.0.1:1/", filepath.Join(dir, "broken"), "a certificate that can't be read"},
		{"wss://127.0.0.1:1/", key, "a private key, and no certificate"},
		{"ws://127.0.0.1:1/", ours.File, "write wss:// or https://"},
		{"unix:///a.sock", ours.File, "write wss:// or https://"},
		{"127.0.0.1:1", "", "write how to reach it"},
	} {
		if err := (Target{URL: c.url, CAFile: c.file}).Check(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s, %s: got %v", c.url, c.file, err)
		}
	}
	if err := (Target{URL: "https://127.0.0.1:1/", CAFile: ours.File}).Check(); err != nil {
		t.Error(err)
	}
}
