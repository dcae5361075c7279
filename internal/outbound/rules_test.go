package outbound_test

import (
	"errors"
	"testing"

	"kernos/internal/outbound"
)

func rules(t *testing.T, entries ...string) outbound.Rules {
	t.Helper()
	r, err := outbound.ParseRules(entries...)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestRulesThatAreNone(t *testing.T) {
	for _, entry := range []string{
		"", " ", "*.", "*", "a..b", "example.com:80", "http://example.com", "10.0.0.0/33", "10.0.0.256", "300.1.1.1",
		"2130706433", "0x7f.1", "0177.0.0.1", "host/8", "::ffff:0:0/95", "user@host", "ex ample.com", "10.0.0.0/",
	} {
		if r, err := outbound.ParseRules("ok.example", entry); err == nil {
			t.Errorf("%q is taken as %v", entry, r)
		}
	}
}

func TestHostsAndAddressesByRule(t *testing.T) {
	deny := outbound.Policy{
		Private: true, Loopback: true,
		Deny: rules(t, "Bad.Example", "*.worse.example", "10.1.0.0/16", "[fd00::7]", "::ffff:192.168.9.0/120"),
	}
	for host, refused := range map[string]bool{
		"bad.example": true, "BAD.example": true, "bad.example.": true, "sub.bad.example": false, "notbad.example": false,
		"a.worse.example": true, "a.b.worse.example": true, "worse.example": false, ".worse.example": false,
		"10.1.2.3": true, "10.2.0.1": false, "::ffff:10.1.2.3": true, "64:ff9b::10.1.2.3": true,
		"fd00::7": true, "fd00::8": false, "192.168.9.9": true, "192.168.8.9": false, "127.0.0.1": false,
	} {
		err := deny.CheckHost(host)
		if _, ok := errors.AsType[*outbound.Refused](err); ok != refused || (err != nil) != refused {
			t.Errorf("%s: %v, want refused: %v", host, err, refused)
		}
	}
}

func TestPolicyOfAddresses(t *testing.T) {
	closed := outbound.Policy{}
	open := outbound.Personal
	excepted := outbound.Policy{Allow: rules(t, "169.254.7.0/24", "10.0.0.7")}
	only := outbound.Policy{Private: true, Only: true, Allow: rules(t, "10.0.0.7", "8.8.8.0/24")}
	for _, c := range []struct {
		host                         string
		closed, open, excepted, only bool // allowed
	}{
		{"8.8.8.8", true, true, true, true},
		{"9.9.9.9", true, true, true, false},
		{"10.0.0.7", false, true, true, true},
		{"10.0.0.8", false, true, false, false},
		{"127.0.0.1", false, true, false, false},
		{"::1", false, true, false, false},
		{"::ffff:127.0.0.1", false, true, false, false},
		{"169.254.169.254", false, false, false, false},
		{"169.254.7.1", false, false, true, false},
		{"::ffff:169.254.7.1", false, false, true, false},
		{"fd00:ec2::254", false, false, false, false},
		{"fe80::1%lo", false, false, false, false},
		{"0.0.0.0", false, false, false, false},
		{"::", false, false, false, false},
		{"224.0.0.1", false, false, false, false},
	} {
		for name, p := range map[string]struct {
			policy  outbound.Policy
			allowed bool
		}{"closed": {closed, c.closed}, "open": {open, c.open}, "excepted": {excepted, c.excepted}, "only": {only, c.only}} {
			if err := p.policy.CheckHost(c.host); (err == nil) != p.allowed {
				t.Errorf("%s, %s: %v, want allowed: %v", c.host, name, err, p.allowed)
			}
		}
	}
}

func FuzzParseRules(f *testing.F) {
	for _, s := range []string{"example.com", "*.example.com", "10.0.0.0/8", "::1", "[fe80::1%eth0]", "::ffff:1.2.3.4/100"} {
		f.Add(s, "10.0.0.1")
	}
	f.Fuzz(func(t *testing.T, entry, host string) {
		r, err := outbound.ParseRules(entry)
		if err != nil {
			return
		}
		// What a rule allows, the same rule denies.
		allow := outbound.Policy{Private: true, Loopback: true, Allow: r}
		deny := allow
		deny.Deny = r
		if allow.CheckHost(host) != nil && deny.CheckHost(host) == nil {
			t.Errorf("%q: denying %q allows it", entry, host)
		}
	})
}
