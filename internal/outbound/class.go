package outbound

import "net/netip"

// A Class says what kind of place an address is. A stricter class is a larger number.
type Class int

// The classes of addresses.
const (
	Public    Class = iota
	Private         // of this organisation's network, or of its provider's
	Loopback        // of this machine
	LinkLocal       // of this link; clouds answer with credentials there
	Special         // of no single host: unspecified, multicast, reserved
)

func (c Class) String() string {
	switch c {
	case Private:
		return "an address of a private network"
	case Loopback:
		return "an address of this machine"
	case LinkLocal:
		return "a link-local or metadata address"
	case Special:
		return "an address that belongs to no single machine"
	}
	return "a public address"
}

// ranges are the addresses that are not public. Of two ranges that hold an address, the
// stricter class counts.
var ranges = []struct {
	prefix netip.Prefix
	class  Class
}{
	{netip.MustParsePrefix("0.0.0.0/8"), Special}, // 0.0.0.0 would be this machine
	{netip.MustParsePrefix("224.0.0.0/4"), Special},
	{netip.MustParsePrefix("240.0.0.0/4"), Special},
	{netip.MustParsePrefix("::/128"), Special},
	{netip.MustParsePrefix("ff00::/8"), Special},

	{netip.MustParsePrefix("169.254.0.0/16"), LinkLocal},
	{netip.MustParsePrefix("fe80::/10"), LinkLocal},
	// The services of clouds that hand out credentials live elsewhere, too.
	{netip.MustParsePrefix("100.100.100.200/32"), LinkLocal},
	{netip.MustParsePrefix("168.63.129.16/32"), LinkLocal},
	{netip.MustParsePrefix("192.0.0.192/32"), LinkLocal},
	{netip.MustParsePrefix("fd00:ec2::/32"), LinkLocal},
	{netip.MustParsePrefix("fd20:ce::254/128"), LinkLocal},

	{netip.MustParsePrefix("127.0.0.0/8"), Loopback},
	{netip.MustParsePrefix("::1/128"), Loopback},

	{netip.MustParsePrefix("10.0.0.0/8"), Private},
	{netip.MustParsePrefix("100.64.0.0/10"), Private},
	{netip.MustParsePrefix("172.16.0.0/12"), Private},
	{netip.MustParsePrefix("192.0.0.0/24"), Private},
	{netip.MustParsePrefix("192.168.0.0/16"), Private},
	{netip.MustParsePrefix("198.18.0.0/15"), Private},
	{netip.MustParsePrefix("64:ff9b:1::/48"), Private},
	{netip.MustParsePrefix("fc00::/7"), Private},
	{netip.MustParsePrefix("fec0::/10"), Private},
}

// ClassOf returns the class of an address, the strictest of those that it has as it
// stands and by the IPv4 addresses that are embedded in it.
func ClassOf(a netip.Addr) Class {
	strictest := Public
	for _, view := range views(a) {
		strictest = max(strictest, classOf(view))
	}
	return strictest
}

// classOf is the class of an address as it stands.
func classOf(a netip.Addr) Class {
	if !a.IsValid() {
		return Special
	}
	class := Public
	for _, r := range ranges {
		if r.class > class && r.prefix.Contains(a) {
			class = r.class
		}
	}
	return class
}

// The prefixes under which something on the way takes an IPv4 address out of an IPv6
// address and goes there.
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
	case nat64.Contains(a), translated.Contains(a):
		embedded(12)
	case compatible.Contains(a) && !a.IsLoopback():
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
