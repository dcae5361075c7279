// Package outbound is the one way out to the network. A [Policy] decides where connections
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
	"cmp"
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/netip"
	"syscall"
	"time"
)

// MaxHeaderBytes is how long the header of an answer may be.
const MaxHeaderBytes = 256 << 10

// Options are the settings of a client. The zero value is usable.
type Options struct {
	// Resolver finds the addresses of names. Nil means that of the system.
	Resolver *net.Resolver

	// TLS is for certificates beyond those that the system trusts. Nil means defaults.
	TLS *tls.Config
}

// NewClient returns a client whose connections follow a policy. It keeps no cookies, and uses no
// proxy, which would make the connections itself and unseen by the policy. It has limits of its own for making a connection; how long
// the answer may take is up to the context of the request. Nil options mean defaults.
func NewClient(p Policy, opts *Options) *http.Client {
	opts = cmp.Or(opts, new(Options))
	return &http.Client{Transport: &http.Transport{
		DialContext:            dialer(&p, opts.Resolver),
		TLSClientConfig:        opts.TLS.Clone(),
		ForceAttemptHTTP2:      true,
		TLSHandshakeTimeout:    10 * time.Second,
		ExpectContinueTimeout:  time.Second,
		IdleConnTimeout:        90 * time.Second,
		MaxIdleConns:           100,
		MaxIdleConnsPerHost:    16,
		MaxResponseHeaderBytes: MaxHeaderBytes,
	}}
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
		d := net.Dialer{Timeout: 10 * time.Second, Resolver: resolver, ControlContext: control}
		return d.DialContext(ctx, network, address)
	}
}
