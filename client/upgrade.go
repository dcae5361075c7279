package client

import (
	"context"
	"io"
	"net"
	"net/http"
)

// An Upgraded is a connection to a server that speaks another protocol than HTTP.
type Upgraded struct {
	io.ReadWriteCloser
	Header http.Header // headers of the server's answer
	conn   net.Conn
}

// CloseWrite ends writing. What the server still sends can be read.
func (u *Upgraded) CloseWrite() error {
	if half, ok := u.conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// Upgrade connects to a page of the target, and switches to another protocol. The error is a *Refused if
// the server doesn't want to.
func (t Target) Upgrade(ctx context.Context, path, protocol string) (*Upgraded, error) {
	e, r, err := t.request(ctx, path)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Connection", "Upgrade")
	r.Header.Set("Upgrade", protocol)
	up := new(Upgraded)
	dial := e.transport.DialContext
	if dial == nil {
		dial = new(net.Dialer).DialContext
	}
	e.transport.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		up.conn = conn
		return conn, err
	}
	response, err := e.transport.RoundTrip(r)
	if err != nil {
		return nil, e.failure(err)
	}
	if both, ok := response.Body.(io.ReadWriteCloser); ok && response.StatusCode == http.StatusSwitchingProtocols {
		up.ReadWriteCloser, up.Header = both, response.Header
		return up, nil
	}
	return nil, e.refusal(response)
}
