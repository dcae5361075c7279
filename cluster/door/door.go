// Package door passes connections on to the node that owns a kernel: to its door, an address at which nodes of the same
// cluster connect to each other over TLS.
//
//	d, err := door.Open(&door.Options{Listen: ":7421"})
//	d.Info()                                          // what the other nodes have to know: it is in the owner's record
//	err = d.Serve(ctx, func(c *door.Conn) error { … }) // hands a connection to the servers of this node
//
// On a node that doesn't own the kernel, what it accepts at its own socket and address is passed on:
//
//	way := func(ctx context.Context, v door.Visitor) (net.Conn, error) { return door.Dial(ctx, owner, v) }
//	lines := &door.Lines{Way: way}
//	lines.Serve(ctx, conn)                             // messages, one per line
//	web := door.NewWeb(&door.WebOptions{Way: way})
//	err = web.Serve(ctx, listener, nil)                // HTTP and WebSockets
//
// A connection through a door begins with one line of JSON: the key of the door, and who is let in ([Visitor]). The owner
// answers with one byte, and then the connection is what the visitor sent and gets. The node that has accepted a visitor
// vouches for what only it could see: the user at the other end of a socket, the address and the TLS of a client.
//
// The alert with which TLS ends a direction is a half-close; the end of the TCP connection is a client that has hung up.
//
// # What happens when the owner goes
//
// Messages that the owner hasn't answered are sent to the next owner if that is safe: queries, and commands with an
// idempotency key, of which nothing has come back. All others are answered with a 503. The connection of the visitor
// stays, unless it had served syscalls, or spoke a dialect in which answers can't be told apart. Requests of HTTP are
// repeated or answered in the same way, and a WebSocket is closed with the status 1012.
//
// # Goroutines
//
//   - A connection that has not introduced itself, one per connection: [Door.Serve] starts it, and it ends when the
//     connection is handed over or refused.
//   - Reading from an owner, and waiting for a visitor that may hang up, one each per visitor: [Lines.Serve] starts them,
//     and they end before it returns.
//   - Accepting, one per [Web.Serve]; net/http has those of its connections.
package door

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"math/big"
	"net"
	"sync"
	"time"

	"kernos/internal/backoff"
	"kernos/internal/patience"
)

// Info is what a node has to know of the door of another one.
type Info struct {
	Address string `json:"address"` // HOST:PORT
	Pin     string `json:"pin"`     // the SHA-256 of the door's certificate, in hexadecimal
	Key     string `json:"key"`     // lets in; who can read the records of the cluster has it
}

// Options of a door.
type Options struct {
	// Listen is the HOST:PORT at which the door listens. The port may be 0.
	Listen string

	// Address is the host, or HOST:PORT, by which other nodes reach the door. "" means the address at which it listens, which
	// must be one that other nodes can reach.
	Address string

	// Log is for the operator. Nil means silence.
	Log *slog.Logger
}

// A Door lets the nodes of a cluster in. Its certificate and its key are new in each process.
type Door struct {
	listener net.Listener
	info     Info
	config   *tls.Config
	log      *slog.Logger
	waiting  chan struct{} // has a place for each connection that has not introduced itself
}

const (
	// introduction is how long a connection may take to introduce itself, and how many may be about to.
	introduction = 5 * time.Second
	introducing  = 128
)

// Open makes a door that listens. The caller closes it.
func Open(o *Options) (*Door, error) {
	certificate, pin, err := newCertificate()
	if err != nil {
		return nil, err
	}
	key := make([]byte, 32)
	_, _ = rand.Read(key) // never fails
	l, err := net.Listen("tcp", o.Listen)
	if err != nil {
		return nil, fmt.Errorf("the door for other nodes can't be opened: %w", err)
	}
	address, err := reachable(o.Address, l.Addr())
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	log := o.Log
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Door{
		listener: l, log: log, waiting: make(chan struct{}, introducing),
		info: Info{Address: address, Pin: pin, Key: base64.RawURLEncoding.EncodeToString(key)},
		config: &tls.Config{
			Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS13, DynamicRecordSizingDisabled: true,
		},
	}, nil
}

// reachable returns the address of a door for other nodes.
func reachable(given string, bound net.Addr) (string, error) {
	_, port, err := net.SplitHostPort(bound.String())
	if err != nil {
		return "", err
	}
	switch host, own, err := net.SplitHostPort(given); {
	case given == "":
		if a, ok := bound.(*net.TCPAddr); ok && a.IP.IsUnspecified() {
			return "", fmt.Errorf("other nodes can't reach the door at %s: name the host by which they do", bound)
		}
		return bound.String(), nil
	case err == nil && own != "0":
		return given, nil
	case err == nil:
		return net.JoinHostPort(host, port), nil
	}
	return net.JoinHostPort(given, port), nil
}

// newCertificate makes a certificate that signs itself, and its pin. It is valid for as long as the process can live:
// what counts is the pin.
func newCertificate() (tls.Certificate, string, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, "", err
	}
	about := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Unix(0, 0), NotAfter: time.Unix(1<<34, 0),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, about, about, key.Public(), key)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pinOf(der), err
}

func pinOf(certificate []byte) string {
	sum := sha256.Sum256(certificate)
	return hex.EncodeToString(sum[:])
}

// Info returns what other nodes have to know.
func (d *Door) Info() Info { return d.info }

// Close closes the door. Connections that were let in stay.
func (d *Door) Close() error { return d.listener.Close() }

// ErrElsewhere is the error of a door whose node doesn't own the kernel at the moment.
var ErrElsewhere = errors.New("this node doesn't own the kernel")

// Serve lets connections in until ctx is done, and hands each to enter. If enter returns an error, the connection is closed,
// after an answer that sends the node to the owner if the error is [ErrElsewhere]. Enter must not wait for long.
// Serve returns when every connection is handed over or closed.
func (d *Door) Serve(ctx context.Context, enter func(*Conn) error) error {
	defer context.AfterFunc(ctx, func() { _ = d.listener.Close() })()
	var open sync.WaitGroup
	defer open.Wait()
	pauses := backoff.Backoff{First: 5 * time.Millisecond, Longest: time.Second}
	for {
		conn, err := d.listener.Accept()
		switch {
		case ctx.Err() != nil:
			if err == nil {
				_ = conn.Close()
			}
			return nil
		case errors.Is(err, net.ErrClosed):
			return fmt.Errorf("the door was closed while it was served: %w", err)
		case err != nil: // no descriptors or no memory are left
			d.log.Error("can't accept a connection of another node; trying again", "error", err, "pause", pauses.Pause())
			pauses.Wait(ctx.Done())
			continue
		}
		pauses.Reset()
		select {
		case d.waiting <- struct{}{}:
		default:
			d.log.Warn("a connection at the door was refused: too many others haven't introduced themselves", "remote", conn.RemoteAddr().String())
			_ = conn.Close()
			continue
		}
		open.Go(func() {
			defer func() { <-d.waiting }()
			d.admit(ctx, conn, enter)
		})
	}
}

// admit checks the introduction of a connection, and hands it over.
func (d *Door) admit(ctx context.Context, plain net.Conn, enter func(*Conn) error) {
	defer context.AfterFunc(ctx, func() { _ = plain.SetDeadline(past) })()
	_ = plain.SetDeadline(time.Now().Add(patience.For(introduction)))
	secured := tls.Server(plain, d.config)
	first, err := readIntroduction(secured)
	if err == nil && subtle.ConstantTimeCompare([]byte(first.Key), []byte(d.info.Key)) != 1 {
		err = errKey
	}
	if err != nil {
		d.log.Warn("a connection at the door was refused", "remote", plain.RemoteAddr().String(), "error", err)
		_ = plain.Close()
		return
	}
	c := &Conn{Conn: secured, plain: plain, visitor: first.Visitor}
	if err := c.decide(enter); err != nil {
		if !errors.Is(err, ErrElsewhere) {
			d.log.Debug("a connection at the door wasn't handed over", "error", err)
		}
		_ = c.Close()
	}
}

var errKey = errors.New("it has the wrong key: it is from another cluster, or meant for an earlier process")

// What the owner answers to an introduction.
const (
	letIn     = '+'
	elsewhere = '-'
)

// decide answers the introduction and hands the connection over.
func (c *Conn) decide(enter func(*Conn) error) error {
	c.answer = func(sign byte) error {
		_, err := c.Conn.Write([]byte{sign})
		if err == nil {
			err = c.plain.SetDeadline(time.Time{})
		}
		return err
	}
	err := enter(c)
	if errors.Is(err, ErrElsewhere) {
		_ = c.answer(elsewhere)
	}
	return err
}

var past = time.Unix(1, 0)
