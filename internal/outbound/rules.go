package outbound

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// Rules is a list of hosts and addresses. The zero value names none.
type Rules struct {
	names    []string // in lower case
	suffixes []string // each begins with a dot
	prefixes []netip.Prefix
}

// ParseRules reads a list. An entry is a host name (example.com), the hosts below one
// (*.example.com), an address (10.1.2.3, fd00::1) or a block of them (10.0.0.0/8). Names
// are compared in the form that DNS has, so one that is not in ASCII is given as
// xn--….
func ParseRules(entries ...string) (Rules, error) {
	var r Rules
	for _, entry := range entries {
		if err := r.add(strings.ToLower(strings.TrimSpace(entry))); err != nil {
			return Rules{}, fmt.Errorf("outbound rule %q: %w", entry, err)
		}
	}
	return r, nil
}

func (r *Rules) add(entry string) error {
	if strings.Contains(entry, "/") {
		p, err := netip.ParsePrefix(entry)
		if err != nil {
			return fmt.Errorf("not a block of addresses, such as 10.0.0.0/8 or fd00::/8")
		}
		if p.Addr().Is4In6() {
			if p.Bits() < 96 {
				return fmt.Errorf("a block that holds all of IPv4 and more is given as 0.0.0.0/0 and ::/0")
			}
			p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
		}
		r.prefixes = append(r.prefixes, p.Masked())
		return nil
	}
	if a, err := netip.ParseAddr(strings.Trim(entry, "[]")); err == nil {
		a = a.Unmap().WithZone("")
		r.prefixes = append(r.prefixes, netip.PrefixFrom(a, a.BitLen()))
		return nil
	}
	name, below := strings.CutPrefix(entry, "*.")
	name = strings.TrimSuffix(name, ".")
	if err := checkName(name); err != nil {
		return err
	}
	if below {
		r.suffixes = append(r.suffixes, "."+name)
	} else {
		r.names = append(r.names, name)
	}
	return nil
}

// checkName refuses what no host is called. A name that ends in a number is refused too:
// it is an address in a spelling that only some programs understand.
func checkName(name string) error {
	if name == "" {
		return fmt.Errorf("it is empty")
	}
	for label := range strings.SplitSeq(name, ".") {
		if label == "" || len(label) > 63 {
			return fmt.Errorf("not a host name, an address, or a block such as 10.0.0.0/8")
		}
		if other := strings.Trim(label, "abcdefghijklmnopqrstuvwxyz0123456789-_"); other != "" {
			return fmt.Errorf("a host name has letters, digits, dashes and dots, and no port; it has %q", other[0])
		}
	}
	last := name[strings.LastIndexByte(name, '.')+1:]
	if last[0] >= '0' && last[0] <= '9' {
		return fmt.Errorf("not an address in its usual spelling, such as 10.0.0.1")
	}
	return nil
}

func (r *Rules) hasHost(host string) bool {
	return slices.Contains(r.names, host) || slices.ContainsFunc(r.suffixes, func(suffix string) bool {
		return strings.HasSuffix(host, suffix) && len(host) > len(suffix)
	})
}

func (r *Rules) hasAddr(a netip.Addr) bool {
	return slices.ContainsFunc(r.prefixes, func(p netip.Prefix) bool { return p.Contains(a) })
}
