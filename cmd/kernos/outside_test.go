package main

import (
	"net/netip"
	"testing"

	"kernos/internal/outbound"
)

// Whoever calls from another machine is not led to what only this one can reach.
func TestAKernelThatOthersReachFetchesPublicPagesOnly(t *testing.T) {
	o := defaultOutside
	o.fetchOnly, o.fetchAllow = true, []string{"10.0.0.7"}
	p, err := o.policy()
	if err != nil || p.CheckHost("10.0.0.7") != nil || p.CheckHost("10.0.0.8") == nil {
		t.Errorf("fetch-only: %v, %v, %v", err, p.CheckHost("10.0.0.7"), p.CheckHost("10.0.0.8"))
	}
	for _, c := range []struct {
		address string
		public  bool
	}{{"127.0.0.1:7420", false}, {"[::1]:0", false}, {"0.0.0.0:7420", true}, {":7420", true}, {"", false}} {
		l := listenSettings{address: tcpAddress{text: c.address}}
		if l.public() != c.public {
			t.Errorf("%q: public is %t", c.address, l.public())
		}
		o := defaultOutside
		o.public = l.public()
		p, err := o.policy()
		if err != nil {
			t.Fatal(err)
		}
		for _, home := range []string{"10.0.0.1", "127.0.0.1"} {
			if got := p.CheckHost(home) == nil; got == c.public {
				t.Errorf("%q: %s (%v) is allowed: %t", c.address, home, outbound.ClassOf(netip.MustParseAddr(home)), got)
			}
		}
	}
}
