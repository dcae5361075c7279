package daemon

import (
	"fmt"
	"net"
	"strings"
	"testing"
)

// A caller from another machine can't make the kernel reach what only this machine can.
func TestAKernelThatOthersReachFetchesPublicPagesOnly(t *testing.T) {
	o := Options{Fetch: Fetch{Only: true, Allow: []string{"10.0.0.7"}}}
	p, err := o.policy()
	if err != nil || p.CheckHost("10.0.0.7") != nil || p.CheckHost("10.0.0.8") == nil {
		t.Errorf("fetch-only: %v, %v, %v", err, p.CheckHost("10.0.0.7"), p.CheckHost("10.0.0.8"))
	}
	for _, c := range []struct {
		address string
		public  bool
	}{{"127.0.0.1:7420", false}, {"[::1]:0", false}, {"0.0.0.0:7420", true}, {":7420", true}, {"", false}} {
		o := Options{Web: &Web{Address: c.address}}
		p, err := o.policy()
		if err != nil {
			t.Fatal(err)
		}
		for _, private := range []string{"10.0.0.1", "127.0.0.1"} {
			if got := p.CheckHost(private) == nil; got == c.public {
				t.Errorf("%q: %s is allowed: %t", c.address, private, got)
			}
		}
	}
}

func TestAddressesThatOthersReach(t *testing.T) {
	for _, c := range []struct {
		set  Web
		ip   string
		want string
	}{
		{Web{}, "127.0.0.1", ""},
		{Web{NoToken: true}, "::1", ""},
		{Web{}, "0.0.0.0", "not served without TLS; give tls-cert and tls-key, or allow it with insecure-listen-without-tls"},
		{Web{NoToken: true}, "192.0.2.1", "insecure-listen-without-tls"},
		{Web{CertFile: "c"}, "192.0.2.1", ""},
		{Web{CertFile: "c", NoToken: true}, "192.0.2.1", "not served without a token; leave out no-token, or allow it with insecure-listen-without-token"},
		{Web{CertFile: "c", NoToken: true, InsecureWithoutToken: true}, "192.0.2.1", ""},
		{Web{InsecureWithoutTLS: true}, "::", ""},
	} {
		err := c.set.permitted(&net.TCPAddr{IP: net.ParseIP(c.ip), Port: 1})
		if got := fmt.Sprint(err); (err == nil) != (c.want == "") || err != nil && !strings.Contains(got, c.want) {
			t.Errorf("%+v at %s: %v", c.set, c.ip, err)
		}
	}
}
