package server

import (
	"crypto/ed25519"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"math/big"
	"os"
	"strings"
	"time"
)

// prefix is what a secret file begins with.
const prefix = "kernos-cluster-1:"

// size is the length of a secret, in bytes.
const size = 32

// NewSecret returns the text of a secret file.
func NewSecret() string {
	b := make([]byte, size)
	_, _ = rand.Read(b) // which doesn't fail
	return prefix + base64.RawURLEncoding.EncodeToString(b) + "\n"
}

// ReadSecret reads a secret file.
func ReadSecret(file string) ([]byte, error) {
	info, err := os.Stat(file)
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("the secret file %s doesn't exist: make it with kernos cluster init on one machine, "+
			"and copy it to the others", file)
	}
	if err != nil {
		return nil, fmt.Errorf("the secret file: %w", err)
	}
	if mode := info.Mode().Perm(); mode&0o077 != 0 {
		return nil, fmt.Errorf("the secret file %s can be read by other users (mode %04o), and who has it is the owner of the cluster; "+
			"correct that with: chmod 600 %[1]s", file, mode)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("the secret file: %w", err)
	}
	encoded, ok := strings.CutPrefix(strings.TrimSpace(string(text)), prefix)
	secret, err := base64.RawURLEncoding.DecodeString(encoded)
	if !ok || err != nil || len(secret) != size {
		return nil, fmt.Errorf("%s isn't a secret file, or is cut off: it is one line that begins with %s; copy it again", file, prefix)
	}
	return secret, nil
}

// keys are what comes from a secret.
type keys struct {
	password  string
	authority ed25519.PrivateKey
}

// derive derives the keys of a secret. They are the same on each node.
func derive(secret []byte) (*keys, error) {
	password, err := hkdf.Key(sha256.New, secret, nil, "kernos cluster: password of routes", size)
	if err != nil {
		return nil, err
	}
	seed, err := hkdf.Key(sha256.New, secret, nil, "kernos cluster: authority of routes", ed25519.SeedSize)
	if err != nil {
		return nil, err
	}
	return &keys{password: hex.EncodeToString(password), authority: ed25519.NewKeyFromSeed(seed)}, nil
}

// dnsName is the name in the certificates of all servers. What tells servers of a cluster from others is the authority.
const dnsName = "server.cluster.kernos"

// Certificates are valid at any time: a node whose clock is wrong stays in the cluster.
var (
	from  = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
	until = time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)
)

// tls makes the certificate of a server, with a key of its own, and returns the configuration of both sides.
func (k *keys) tls(name string) (*tls.Config, error) {
	authority := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "Kernos cluster"}, NotBefore: from, NotAfter: until,
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, authority, authority, k.authority.Public(), k.authority)
	if err != nil {
		return nil, err
	}
	if authority, err = x509.ParseCertificate(der); err != nil {
		return nil, err
	}
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, err
	}
	leaf, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: name}, DNSNames: []string{dnsName}, NotBefore: from, NotAfter: until,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}, authority, public, k.authority)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	pool.AddCert(authority)
	return &tls.Config{
		MinVersion:   tls.VersionTLS13,
		Certificates: []tls.Certificate{{Certificate: [][]byte{leaf}, PrivateKey: private}},
		RootCAs:      pool,
		ClientCAs:    pool,
		ClientAuth:   tls.RequireAndVerifyClientCert,
		ServerName:   dnsName,
	}, nil
}
