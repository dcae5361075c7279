package conformance

import (
	"testing"

	"kernos/daemon"
)

// TestStandInsHaveNoRealOne fails where a conversation has a handler of its own for a syscall
// that Kernos has: it would prove nothing of that.
func TestStandInsHaveNoRealOne(t *testing.T) {
	real, err := daemon.Definitions()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range conversations(t) {
		for _, h := range c.handlers {
			if _, ok := real.Lookup(h.name); ok {
				t.Errorf("%s has a stand-in for %s, which Kernos has", c.path, h.name)
			}
		}
	}
}
