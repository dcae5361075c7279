package door

import (
	"io"
	"net"
	"os"
	"sync"
	"syscall"
)

// Pair returns the two ends of a connection within this process, for a server that needs a socket of its own.
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

// Join copies between a connection that was let in and one end of a [Pair] until both directions have ended, or one side has
// hung up, which ends the other. It closes both.
func Join(c *Conn, end *net.UnixConn) {
	var sending sync.WaitGroup
	sending.Go(func() {
		_, err := io.Copy(struct{ io.Writer }{c.Conn}, end)
		if err == nil {
			err = c.CloseWrite()
		}
		if err != nil { // the visitor has hung up
			_ = end.Close()
		}
	})
	if _, err := io.Copy(struct{ io.Writer }{end}, c.Conn); err == nil {
		_ = end.CloseWrite()
		// TLS has ended; TCP ends when the visitor has hung up.
		_, _ = io.Copy(io.Discard, c.plain)
	}
	_ = end.Close()
	sending.Wait()
	_ = c.plain.Close()
}
