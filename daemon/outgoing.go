package daemon

import (
	"net/http"

	"kernos/internal/outbound"
	"kernos/kernel"
	"kernos/kernel/principal"
	"kernos/message"
)

// outgoing sends the requests that callers cause, by Http.Fetch, by pointers and by hydration, with
// the rights of the caller. Where a token may go is decided apart from where the owner may: this
// machine and private networks trust callers that are inside, and a token's holder may be outside.
// So their connections are apart, too.
type outgoing struct{ owner, tokens http.RoundTripper }

// newOutgoing returns a client for callers, and one for what the owner has set up, such as mounts.
func newOutgoing(p outbound.Policy) (callers, own *http.Client) {
	own = outbound.NewClient(p, nil)
	p.Private, p.Loopback = false, false
	return &http.Client{Transport: &outgoing{own.Transport, outbound.NewClient(p, nil).Transport}}, own
}

// fetching is what every request for a token needs the right to call.
var fetching = principal.Target{Type: "Http.Fetch", Kind: message.KindCommand}

// RoundTrip implements [http.RoundTripper].
func (o *outgoing) RoundTrip(r *http.Request) (*http.Response, error) {
	p := kernel.PrincipalOf(r.Context())
	if err := reachesAddress(r, p); err != nil {
		if r.Body != nil {
			_ = r.Body.Close()
		}
		return nil, err
	}
	if p.IsOwner() {
		return o.owner.RoundTrip(r)
	}
	return o.tokens.RoundTrip(r)
}

// reachesAddress decides whether a request may be sent.
func reachesAddress(r *http.Request, p *principal.Principal) error {
	if !p.IsOwner() {
		if e := p.May(fetching); e != nil {
			return e
		}
	}
	return kernel.Reaching(r.Context(), kernel.ToNetwork, r.URL.Scheme+"://"+r.URL.Host)
}

// CloseIdleConnections is what [http.Client] looks for.
func (o *outgoing) CloseIdleConnections() {
	for _, t := range []http.RoundTripper{o.owner, o.tokens} {
		(&http.Client{Transport: t}).CloseIdleConnections()
	}
}
