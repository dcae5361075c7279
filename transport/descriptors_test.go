package transport

import "testing"

// The wires together leave the store what it needs, whatever the limit is.
func TestTheWiresShareTheDescriptors(t *testing.T) {
	const many = 1 << 20
	for _, open := range []int{64, 256, 1024, 4096, 65536} {
		socket, http, websockets := share(many, 2, open), share(many, 4, open), share(many, 4, open)
		if left := open - socket - http - websockets; left < min(ownFiles, open/2) {
			t.Errorf("of %d files, %d are left for the store", open, left)
		}
		if socket < open/8 || http < open/16 {
			t.Errorf("of %d files, the socket has %d and HTTP %d", open, socket, http)
		}
	}
	if n := share(5, 4, 1024); n != 5 {
		t.Errorf("5 connections became %d", n)
	}
}
