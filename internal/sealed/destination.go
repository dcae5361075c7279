package sealed

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"sync"

	"kernos/internal/jsonscan"
)

// Limits of a destination: a sealed string with one still fits into a line.
const (
	maxDestinations     = 8
	maxDestinationBytes = 240 // bytes of all patterns together
)

// A Destination is what a secret is for, as patterns. An empty one is anything.
//
//	api.example.com        a host, at the usual ports of http and https
//	*.example.com          every host below example.com
//	localhost:8080         a host, at one port
//	Http.Fetch, Mail.*     a syscall, or all of a domain
//
// If there are patterns of hosts, the secret goes to a host that fits one of them. If there
// are patterns of syscalls, only a syscall that fits one of them has it opened.
type Destination []string

// A Use is what a secret is to be opened for.
type Use struct {
	Syscall string
	Hosts   []string // hosts that will see the secret, with their ports: api.example.com:443
}

var (
	syscallForm = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Z][A-Za-z0-9]*\.([A-Z][A-Za-z0-9]*|\*)$`) })
	labelForm   = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?$`) })
	portForm    = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[1-9][0-9]{0,4}$`) })
)

func isSyscall(pattern string) bool { return syscallForm().MatchString(pattern) }

// Check returns what is wrong with a destination.
func (d Destination) Check() error {
	if len(d) > maxDestinations {
		return fmt.Errorf("at most %d patterns are allowed, got %d", maxDestinations, len(d))
	}
	size := 0
	for _, pattern := range d {
		if size += len(pattern); size > maxDestinationBytes {
			return fmt.Errorf("the patterns have more than %d bytes together", maxDestinationBytes)
		}
		if !isSyscall(pattern) && !isHostPattern(pattern) {
			return errors.New("expected a host such as api.example.com, *.example.com or localhost:8080 in lower case, or a syscall such as Http.Fetch or Mail.*")
		}
	}
	return nil
}

func isHostPattern(pattern string) bool {
	host, port := splitPort(pattern)
	if port != "" && !portForm().MatchString(port) {
		return false
	}
	if _, err := netip.ParseAddr(host); err == nil {
		return true
	}
	name, below := strings.CutPrefix(host, "*.")
	labels := strings.Split(name, ".")
	if below && len(labels) < 2 { // *.com has no single owner
		return false
	}
	// A number at the end makes a name an address, in one of many spellings.
	if strings.Trim(labels[len(labels)-1], "0123456789") == "" {
		return false
	}
	return !slices.ContainsFunc(labels, func(label string) bool { return !labelForm().MatchString(label) })
}

// splitPort takes a host apart: "[::1]:80" is "::1" and "80". Without a port it is "".
func splitPort(text string) (host, port string) {
	if host, port, err := net.SplitHostPort(text); err == nil && port != "" {
		return host, port
	}
	return strings.TrimSuffix(strings.TrimPrefix(text, "["), "]"), ""
}

// Refuses returns why a secret with this destination may not be opened for a use, or nil.
func (d Destination) Refuses(u Use) error {
	syscalls, hosts := d.patterns()
	if len(syscalls) > 0 && !slices.ContainsFunc(syscalls, func(p string) bool { return fitsSyscall(p, u.Syscall) }) {
		return fmt.Errorf("it is sealed for %s, and not for %s", d, u.Syscall)
	}
	if len(hosts) == 0 {
		return nil
	}
	if len(u.Hosts) == 0 {
		return fmt.Errorf("it is sealed for %s, and %s sends it to none", d, u.Syscall)
	}
	for _, host := range u.Hosts {
		if !slices.ContainsFunc(hosts, func(p string) bool { return fitsHost(p, host) }) {
			return fmt.Errorf("it is sealed for %s, and not for %s", d, host)
		}
	}
	return nil
}

// NamesHost reports whether some pattern is one of hosts, so that the secret goes to them only.
func (d Destination) NamesHost() bool {
	_, hosts := d.patterns()
	return len(hosts) > 0
}

func (d Destination) patterns() (syscalls, hosts []string) {
	for _, pattern := range d {
		if isSyscall(pattern) {
			syscalls = append(syscalls, pattern)
		} else {
			hosts = append(hosts, pattern)
		}
	}
	return syscalls, hosts
}

// String lists the patterns.
func (d Destination) String() string { return strings.Join(d, ", ") }

// appendJSON appends the patterns as a JSON list.
func (d Destination) appendJSON(b []byte) []byte {
	for i, pattern := range d {
		b = append(b, "[,"[min(i, 1)])
		b = jsonscan.AppendQuoted(b, pattern)
	}
	return append(b, ']')
}

func fitsSyscall(pattern, syscall string) bool {
	if domain, ok := strings.CutSuffix(pattern, "*"); ok {
		return strings.HasPrefix(syscall, domain)
	}
	return pattern == syscall
}

// fitsHost reports whether a host with its port fits a pattern.
func fitsHost(pattern, host string) bool {
	name, port := splitPort(host)
	want, wantPort := splitPort(pattern)
	if wantPort != port && (wantPort != "" || port != "80" && port != "443") {
		return false
	}
	if address, err := netip.ParseAddr(want); err == nil {
		other, err := netip.ParseAddr(name)
		return err == nil && address == other
	}
	name = strings.ToLower(strings.TrimSuffix(name, "."))
	if domain, ok := strings.CutPrefix(want, "*"); ok {
		return len(name) > len(domain) && strings.HasSuffix(name, domain)
	}
	return name == want
}
