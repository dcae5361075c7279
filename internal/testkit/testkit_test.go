package testkit_test

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/crypto/ssh/agent"

	"kernos/internal/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestUntil(t *testing.T) {
	n := 0
	testkit.Until(t, "it was asked three times", func() bool { n++; return n == 3 })
}

func TestServeAgent(t *testing.T) {
	key, _ := testkit.Key(t)
	conn, err := net.Dial("unix", testkit.ServeAgent(t, testkit.Keyring(t, key)))
	if err != nil {
		t.Fatal(err)
	}
	keys, err := agent.NewClient(conn).List()
	if err != nil || len(keys) != 1 {
		t.Errorf("it has %v, %v", keys, err)
	}
	if err := conn.Close(); err != nil {
		t.Error(err)
	}
}

func TestAuthority(t *testing.T) {
	a := testkit.NewAuthority(t, "Test CA")
	until := time.Now().Add(time.Hour).Truncate(time.Second)
	pair, err := tls.LoadX509KeyPair(a.Certify(t, until, "localhost", "127.0.0.1"))
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(a.File)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(text) {
		t.Fatal("it has no certificate")
	}
	for _, name := range []string{"localhost", "127.0.0.1"} {
		if _, err := pair.Leaf.Verify(x509.VerifyOptions{DNSName: name, Roots: roots}); err != nil {
			t.Error(err)
		}
	}
	if !pair.Leaf.NotAfter.Equal(until) {
		t.Errorf("it is valid until %v", pair.Leaf.NotAfter)
	}
}

// A server listens at the address, again and again.
func TestAddress(t *testing.T) {
	address := testkit.Address(t)
	for range 3 {
		l, err := net.Listen("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		c, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = c.Close(), l.Close()
	}
}
