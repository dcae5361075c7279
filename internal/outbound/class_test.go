package outbound

import (
	"net/netip"
	"testing"
)

// strictest is the strictest class of what an address may mean.
func strictest(a netip.Addr) addressClass {
	class := public
	for _, view := range views(a) {
		class = max(class, classOf(view))
	}
	return class
}

func TestClassesOfAddresses(t *testing.T) {
	for class, addrs := range map[addressClass][]string{
		public: {
			"8.8.8.8", "1.1.1.1", "172.15.255.255", "172.32.0.1", "100.63.255.255", "100.128.0.1", "11.0.0.1", "169.253.1.1",
			"2606:4700::1111", "2a00::1", "::ffff:8.8.8.8", "64:ff9b::8.8.8.8", "2002:808:808::1",
		},
		private: {
			"10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.1.1", "100.64.0.1", "192.0.0.1", "198.18.0.1",
			"fc00::1", "fd12:3456::1", "fec0::1", "::ffff:10.0.0.1", "::10.0.0.1", "64:ff9b::10.0.0.1", "64:ff9b:1::8.8.8.8",
			"2002:a00:1::1", "2001:0:a00:1::f7f7:f7f7", "::ffff:0:10.0.0.1", "2a00::5efe:10.0.0.1", "2a00::200:5efe:10.0.0.1",
		},
		loopback: {
			"127.0.0.1", "127.255.255.254", "::1", "::ffff:127.0.0.1", "64:ff9b::127.0.0.1", "2002:7f00:1::", "::127.0.0.1",
			"::ffff:0:127.0.0.1", "64:ff9b:1:7f00:0:100::", "2001:0:808:808::80ff:fffe",
		},
		linkLocal: {
			"169.254.169.254", "169.254.0.1", "fe80::1", "fe80::1%eth0", "febf::1", "fd00:ec2::254", "fd20:ce::254",
			"100.100.100.200", "168.63.129.16", "192.0.0.192", "::ffff:169.254.169.254", "::ffff:a9fe:a9fe", "::169.254.169.254",
			"64:ff9b::169.254.169.254", "64:ff9b:1::169.254.169.254", "2002:a9fe:a9fe::1",
			"2001:0:808:808::5601:5601", "2a00::5efe:169.254.169.254",
		},
		special: {
			"0.0.0.0", "0.1.2.3", "224.0.0.1", "239.1.1.1", "240.0.0.1", "255.255.255.255", "::", "ff02::1",
			"::ffff:0.0.0.0", "64:ff9b::0.0.0.0", "2002::1", "2002:e000:1::",
		},
	} {
		for _, text := range addrs {
			if got := strictest(netip.MustParseAddr(text)); got != class {
				t.Errorf("%s is %v, want %v", text, got, class)
			}
		}
	}
	if got := strictest(netip.Addr{}); got != special {
		t.Errorf("no address is %v", got)
	}
}

// FuzzEmbedded: whatever an IPv4 address is embedded in is at least as strict as it is.
func FuzzEmbedded(f *testing.F) {
	f.Add(uint32(0xA9FEA9FE), uint64(0))
	f.Add(uint32(0x7F000001), uint64(0x00005EFE))
	f.Fuzz(func(t *testing.T, v4 uint32, rest uint64) {
		b := [4]byte{byte(v4 >> 24), byte(v4 >> 16), byte(v4 >> 8), byte(v4)}
		want := strictest(netip.AddrFrom4(b))
		mapped := [16]byte{10: 0xFF, 11: 0xFF, 12: b[0], 13: b[1], 14: b[2], 15: b[3]}
		if got := strictest(netip.AddrFrom16(mapped)); got != want {
			t.Errorf("%v mapped is %v, want %v", b, got, want)
		}
		for name, wrapped := range map[string][16]byte{
			"nat64":  {1: 0x64, 2: 0xFF, 3: 0x9B, 12: b[0], 13: b[1], 14: b[2], 15: b[3]},
			"6to4":   {0x20, 0x02, b[0], b[1], b[2], b[3], byte(rest), byte(rest >> 8), byte(rest >> 16)},
			"teredo": {0x20, 0x01, 0, 0, byte(rest), byte(rest >> 8), byte(rest >> 16), byte(rest >> 24), 12: ^b[0], 13: ^b[1], 14: ^b[2], 15: ^b[3]},
			"isatap": {0x2A, byte(rest), byte(rest >> 8), 10: 0x5E, 11: 0xFE, 12: b[0], 13: b[1], 14: b[2], 15: b[3]},
		} {
			if got := strictest(netip.AddrFrom16(wrapped)); got < want {
				t.Errorf("%v as %s is %v, want at least %v", b, name, got, want)
			}
		}
	})
}
