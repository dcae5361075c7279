package door

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// A Kind is the way by which a visitor has come to a node.
type Kind string

// The kinds of visitors.
const (
	// UnixLines and UnixHTTP are connections of the owner of the home to the socket: the node that has accepted them
	// has checked the user at the other end. UnixHTTP begins with a request of HTTP, and UnixLines doesn't.
	UnixLines Kind = "lines"
	UnixHTTP  Kind = "http"

	// TCP is a connection to the address for callers with a token.
	TCP Kind = "tcp"
)

// A Visitor is a connection that a node passes on, as the node that has accepted it saw it.
type Visitor struct {
	Kind   Kind   `json:"kind"`
	Remote string `json:"remote,omitempty"` // of TCP: the address of the client
	Local  string `json:"local,omitempty"`  // of TCP: the address that the client has connected to
	TLS    bool   `json:"tls,omitempty"`    // of TCP: the client uses TLS, which ends at that node
}

// check reports what is wrong with a visitor.
func (v *Visitor) check() error {
	switch v.Kind {
	case UnixLines, UnixHTTP:
		if v.Remote != "" || v.Local != "" || v.TLS {
			return fmt.Errorf("a visitor of the kind %s has no addresses", v.Kind)
		}
		return nil
	case TCP:
		for _, a := range []string{v.Remote, v.Local} {
			if _, err := netip.ParseAddrPort(a); err != nil {
				return fmt.Errorf("a visitor has the address %q; expected HOST:PORT", a)
			}
		}
		return nil
	}
	return errors.New("a visitor is of an unknown kind")
}

// An introduction is the first line of a connection through a door.
type introductionLine struct {
	Key string `json:"key"`
	Visitor
}

// maxIntroduction is how many bytes an introduction has at most.
const maxIntroduction = 512

// parseIntroduction reads an introduction, without the end of its line.
func parseIntroduction(line []byte) (first introductionLine, err error) {
	d := json.NewDecoder(bytes.NewReader(line))
	d.DisallowUnknownFields()
	if err := d.Decode(&first); err != nil {
		return first, errors.New("it doesn't introduce itself as a node does") // err would quote what came
	}
	if _, err := d.Token(); err != io.EOF {
		return first, errors.New("more than one value is in its introduction")
	}
	if first.Key == "" {
		return first, errors.New("it has no key")
	}
	return first, first.check()
}

// readIntroduction reads the first line of a connection, and nothing after it.
func readIntroduction(r io.Reader) (first introductionLine, err error) {
	line := make([]byte, 0, maxIntroduction)
	for next := make([]byte, 1); ; line = append(line, next[0]) {
		if _, err := io.ReadFull(r, next); err != nil {
			return first, fmt.Errorf("it hasn't introduced itself: %w", err)
		}
		if next[0] == '\n' {
			return parseIntroduction(line)
		}
		if len(line) == maxIntroduction {
			return first, fmt.Errorf("its introduction is longer than %d bytes", maxIntroduction)
		}
	}
}

// append writes an introduction as a line.
func (first *introductionLine) line() []byte {
	text, _ := json.Marshal(first) // never fails
	return append(text, '\n')
}

// A Conn is a connection that was let in at a door. Its addresses are those that the node has seen which accepted it.
type Conn struct {
	net.Conn // over TLS
	plain    net.Conn
	visitor  Visitor
	answer   func(byte) error
}

// Visitor returns who has come.
func (c *Conn) Visitor() Visitor { return c.visitor }

// Enter lets the visitor in: what it sends is read from here on. It is called once, before the connection is read.
func (c *Conn) Enter() error { return c.answer(letIn) }

// RemoteAddr implements [net.Conn]: the address of the client, if it has come over TCP.
func (c *Conn) RemoteAddr() net.Addr { return c.address(c.visitor.Remote) }

// LocalAddr implements [net.Conn]: the address that the client has connected to, if it has come over TCP.
func (c *Conn) LocalAddr() net.Addr { return c.address(c.visitor.Local) }

func (c *Conn) address(text string) net.Addr {
	if a, err := netip.ParseAddrPort(text); err == nil {
		return net.TCPAddrFromAddrPort(a)
	}
	return &net.UnixAddr{Net: "unix"}
}

// ClientTLS reports whether the client uses TLS, which ends at the node that has accepted it.
func (c *Conn) ClientTLS() bool { return c.visitor.TLS }

// CloseWrite ends what is sent to the visitor.
func (c *Conn) CloseWrite() error { return c.Conn.(interface{ CloseWrite() error }).CloseWrite() }

// TryWrite writes p if that doesn't wait, and reports how much it has written: all or nothing. Each call is one record of TLS.
func (c *Conn) TryWrite(p []byte) (int, error) {
	if len(p) > roomy || !c.writable() {
		return 0, nil
	}
	return c.Conn.Write(p)
}

// roomy is how much a socket takes that can be written to, the least of the systems.
const roomy = 2000

// writable reports whether the socket takes a little without waiting.
func (c *Conn) writable() (yes bool) {
	raw, err := c.plain.(syscall.Conn).SyscallConn()
	if err != nil {
		return false
	}
	_ = raw.Control(func(fd uintptr) {
		poll := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}
		n, err := unix.Poll(poll, 0)
		yes = err == nil && n == 1
	})
	return yes
}

// HungUp waits, after the end of what the visitor sends, until it has hung up, and reports whether it came to that. A read
// deadline ends the wait.
func (c *Conn) HungUp() bool {
	// TLS has ended; TCP ends when the visitor has hung up.
	_, err := io.Copy(io.Discard, c.plain)
	return !errors.Is(err, os.ErrDeadlineExceeded) && !errors.Is(err, net.ErrClosed)
}

// Close hangs up, and doesn't wait for a visitor that doesn't read.
func (c *Conn) Close() error {
	if !c.writable() {
		return c.plain.Close()
	}
	return c.Conn.Close()
}
