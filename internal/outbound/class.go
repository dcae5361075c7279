package outbound

import "net/netip"

// An addressClass is the kind of place that an address is. A stricter class is a larger number.
type addressClass int

// The classes of addresses.
const (
	public    addressClass = iota
	private                // in this organisation's network, or its provider's
	loopback               // this machine
	linkLocal              // this link; clouds answer with credentials there
	special                // no single host: unspecified, multicast, reserved
)

func (c addressClass) String() string {
	return [...]string{
		"a public address", "an address of a private network", "an address of this machine",
		"a link-local or metadata address", "an address that belongs to no single machine",
	}[c]
}

// ranges are the addresses that are not public, by class. Of two ranges that hold an address,
// the stricter class counts.
var ranges = [...]Rules{
	private: mustParse("10.0.0.0/8", "100.64.0.0/10", "172.16.0.0/12", "192.0.0.0/24", "192.168.0.0/16", "198.18.0.0/15",
		"64:ff9b:1::/48", "fc00::/7", "fec0::/10"),
	loopback: mustParse("127.0.0.0/8", "::1"),
	linkLocal: mustParse("169.254.0.0/16", "fe80::/10",
		// The services of clouds that hand out credentials live elsewhere, too.
		"100.100.100.200", "168.63.129.16", "192.0.0.192", "fd00:ec2::/32", "fd20:ce::254"),
	special: mustParse("0.0.0.0/8", // 0.0.0.0 would be this machine
		"224.0.0.0/4", "240.0.0.0/4", "::", "ff00::/8"),
}

func mustParse(entries ...string) Rules {
	r, err := ParseRules(entries...)
	if err != nil {
		panic(err)
	}
	return r
}

// classOf returns the class of an address as it stands.
func classOf(a netip.Addr) addressClass {
	if !a.IsValid() {
		return special
	}
	for class := special; class > public; class-- {
		if ranges[class].hasAddr(a) {
			return class
		}
	}
	return public
}

// The prefixes of IPv6 addresses that contain an IPv4 address, to which a gateway forwards
// the traffic.
var (
	nat64      = netip.MustParsePrefix("64:ff9b::/96")
	nat64Local = netip.MustParsePrefix("64:ff9b:1::/48")
	sixToFour  = netip.MustParsePrefix("2002::/16")
	teredo     = netip.MustParsePrefix("2001::/32")
	compatible = netip.MustParsePrefix("::/96")
	translated = netip.MustParsePrefix("::ffff:0:0:0/96")
)

// views lists what an address may mean: itself, with an IPv4 address as such, and the
// IPv4 addresses in it.
func views(a netip.Addr) []netip.Addr {
	a = a.Unmap().WithZone("")
	all := []netip.Addr{a}
	if !a.Is6() {
		return all
	}
	b := a.As16()
	embedded := func(at int) { all = append(all, netip.AddrFrom4([4]byte(b[at:at+4]))) }
	switch {
	case nat64.Contains(a), translated.Contains(a), compatible.Contains(a) && !a.IsLoopback():
		embedded(12)
	case nat64Local.Contains(a):
		// The operator of the network chooses how long the prefix is: 48, 56, 64 or 96 bits.
		// RFC 6052 keeps the byte b[8] zero. A reading that begins with zeros is not meant.
		for _, v4 := range [][4]byte{
			{b[6], b[7], b[9], b[10]}, {b[7], b[9], b[10], b[11]}, [4]byte(b[9:13]), [4]byte(b[12:16]),
		} {
			if v4[0] != 0 {
				all = append(all, netip.AddrFrom4(v4))
			}
		}
	case sixToFour.Contains(a):
		embedded(2)
	case teredo.Contains(a):
		embedded(4)
		all = append(all, netip.AddrFrom4([4]byte{^b[12], ^b[13], ^b[14], ^b[15]}))
	}
	if b[8]&^0x02 == 0 && b[9] == 0 && b[10] == 0x5E && b[11] == 0xFE { // ISATAP
		embedded(12)
	}
	return all
}
