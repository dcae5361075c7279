package outbound

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// A Policy decides where connections may go. The zero value lets them go to public
// addresses only.
//
// Link-local addresses and the metadata services of clouds, which give credentials to
// any caller, are refused whatever else the policy allows, unless Allow names the address.
type Policy struct {
	Private  bool // addresses of private networks are allowed
	Loopback bool // addresses of this machine are allowed

	// Allow lists exceptions. An address or a block is allowed whatever it is. A host name
	// may lead to private networks and to this machine, but no further: the owner of
	// the name need not be the owner of this machine.
	Allow Rules

	// Deny is refused, even if Allow has it, too.
	Deny Rules

	// Only refuses everything that Allow does not name.
	Only bool
}

// Personal is the policy of a machine that serves its owner only.
var Personal = Policy{Private: true, Loopback: true}

// A Refused is the error for a connection that the policy does not allow. It is found
// with errors.As in what a client returns.
type Refused struct {
	Host   string // the host as the request named it
	Reason string
}

func (r *Refused) Error() string { return fmt.Sprintf("%s: %s", r.Host, r.Reason) }

// CheckHost looks at a host before its name is resolved: a name that the policy
// denies, or an address. What it lets pass may still be refused by its address.
func (p *Policy) CheckHost(host string) error {
	name := normal(host)
	if a, err := netip.ParseAddr(name); err == nil {
		return p.checkAddr(host, a)
	}
	if p.Deny.hasHost(name) {
		return &Refused{host, "it is on the list of hosts that are denied"}
	}
	return nil
}

func normal(host string) string { return strings.ToLower(strings.TrimSuffix(host, ".")) }

// checkAddr decides about an address that a host has turned out to have.
func (p *Policy) checkAddr(host string, a netip.Addr) error {
	named := p.Allow.hasHost(normal(host))
	all := views(a)
	if slices.ContainsFunc(all, p.Deny.hasAddr) {
		return &Refused{host, "its address is on the list of those that are denied"}
	}
	for _, view := range all {
		if p.Allow.hasAddr(view) {
			continue
		}
		class := classOf(view)
		allowed := class == public ||
			class == private && (p.Private || named) ||
			class == loopback && (p.Loopback || named)
		if !allowed {
			return &Refused{host, "it leads to " + class.String() + ", which is not allowed here; the owner can allow it with kernos serve --fetch-allow " + host + ", or KERNOS_FETCH_ALLOW"}
		}
	}
	if p.Only && !named && !p.Allow.hasAddr(all[0]) {
		return &Refused{host, "it is not on the list of hosts that are allowed"}
	}
	return nil
}
