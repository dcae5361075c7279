// Package outbound is the one way out to the network. A [Policy] says where connections
// may go, and [NewClient] makes an HTTP client that goes nowhere else:
//
//	client := outbound.NewClient(outbound.Policy{}, nil) // public addresses only
//	response, err := client.Get("http://169.254.169.254/")
//	errors.AsType[*outbound.Refused](err) // it is one
//
// The policy is enforced on the address of each connection, when the name has been
// resolved and before the first packet goes out. So neither the spelling of an address,
// nor a redirect, nor a name whose address changes gets around it.
package outbound

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"syscall"
	"time"
)

// Limits of a client.
const (
	dialTimeout = 10 * time.Second // for a connection, names and all
	tlsTimeout  = 10 * time.Second
	idleTimeout = 90 * time.Second

	maxIdle        = 100
	maxIdlePerHost = 16

	// MaxHeaderBytes is how long the header of an answer may be.
	MaxHeaderBytes = 256 << 10
)

// Options are the settings of a client. The zero value is usable.
type Options struct {
	// Resolver finds the addresses of names. Nil means that of the system.
	Resolver *net.Resolver

	// TLS is for certificates beyond those that the system trusts. Nil means defaults.
	TLS *tls.Config

	// Proxy chooses the proxy of a request. Nil means none, whatever the environment says:
	// a proxy makes the connections itself, so the guard sees the proxy's address and of
	// the target no more than its name.
	Proxy func(*http.Request) (*url.URL, error)
}

// NewClient returns a client whose connections follow a policy. It keeps no cookies and
// asks no environment for a proxy. It has limits of its own for making a connection;
// how long the answer may take is for the context of the request to say. Its idle connections are closed with
// CloseIdleConnections. Nil options mean defaults.
func NewClient(p Policy, opts *Options) *http.Client {
	if opts == nil {
		opts = new(Options)
	}
	t := &http.Transport{
		DialContext:            dialer(&p, opts.Resolver),
		TLSClientConfig:        opts.TLS.Clone(),
		ForceAttemptHTTP2:      true,
		TLSHandshakeTimeout:    tlsTimeout,
		ExpectContinueTimeout:  time.Second,
		IdleConnTimeout:        idleTimeout,
		MaxIdleConns:           maxIdle,
		MaxIdleConnsPerHost:    maxIdlePerHost,
		MaxResponseHeaderBytes: MaxHeaderBytes,
	}
	if opts.Proxy != nil {
		t.Proxy = func(r *http.Request) (*url.URL, error) {
			if err := p.CheckHost(r.URL.Hostname()); err != nil {
				return nil, err
			}
			return opts.Proxy(r)
		}
	}
	return &http.Client{Transport: t}
}

// dialer checks a host, and then each of its addresses: when the name is resolved, and before
// the first packet.
func dialer(p *Policy, resolver *net.Resolver) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		host, _, err := net.SplitHostPort(address)
		if err != nil {
			return nil, err
		}
		if err := p.CheckHost(host); err != nil {
			return nil, err
		}
		control := func(_ context.Context, network, address string, _ syscall.RawConn) error {
			a, err := netip.ParseAddrPort(address)
			switch {
			case network != "tcp4" && network != "tcp6":
				return &Refused{host, "only TCP is allowed"}
			case err != nil:
				return &Refused{host, "its address can't be read"}
			}
			return p.checkAddr(host, a.Addr())
		}
		d := net.Dialer{Timeout: dialTimeout, Resolver: resolver, ControlContext: control}
		return d.DialContext(ctx, network, address)
	}
}
