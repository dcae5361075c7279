package door

import (
	"net"
	"os"
	"syscall"
)

// Pair returns the two ends of a connection within this process, which are sockets.
func Pair() (near, far *net.UnixConn, err error) {
	syscall.ForkLock.RLock()
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err == nil {
		syscall.CloseOnExec(fds[0])
		syscall.CloseOnExec(fds[1])
	}
	syscall.ForkLock.RUnlock()
	if err != nil {
		return nil, nil, os.NewSyscallError("socketpair", err)
	}
	if near, err = pairEnd(fds[0]); err != nil {
		_ = syscall.Close(fds[1])
		return nil, nil, err
	}
	if far, err = pairEnd(fds[1]); err != nil {
		_ = near.Close()
		return nil, nil, err
	}
	return near, far, nil
}

func pairEnd(fd int) (*net.UnixConn, error) {
	file := os.NewFile(uintptr(fd), "pair")
	conn, err := net.FileConn(file)
	_ = file.Close()
	if err != nil {
		return nil, err
	}
	return conn.(*net.UnixConn), nil
}
