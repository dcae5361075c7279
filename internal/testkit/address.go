package testkit

import (
	"net"
	"runtime"
	"strconv"
	"syscall"
	"testing"
)

// Address returns an address of this machine for a server that ends and comes back: until the test ends, its
// port is given to no other program that asks for any free port.
func Address(t testing.TB) string {
	t.Helper()
	syscall.ForkLock.RLock()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	if err == nil {
		syscall.CloseOnExec(fd)
	}
	syscall.ForkLock.RUnlock()
	if err != nil {
		t.Fatal(err)
	}
	// With this, servers can listen there: the socket has the port, and doesn't listen.
	err = syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1)
	if err == nil {
		err = syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}})
	}
	var bound syscall.Sockaddr
	if err == nil {
		bound, err = syscall.Getsockname(fd)
	}
	if err != nil || runtime.GOOS != "linux" { // elsewhere, servers could not listen there
		_ = syscall.Close(fd)
	} else {
		t.Cleanup(func() { _ = syscall.Close(fd) })
	}
	if err != nil {
		t.Fatal(err)
	}
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(bound.(*syscall.SockaddrInet4).Port))
}
