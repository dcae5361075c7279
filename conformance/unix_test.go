package conformance

import (
	"context"
	"errors"
	"io"
	"net"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/crypto/ssh"

	"kernos/internal/testkit"
	"kernos/store"
	"kernos/transport/unix"
)

// dialUnix talks to a kernel in this process over a socket. A half-closed socket is the end
// of the input.
func dialUnix(t *testing.T, c *conversation, open func() (store.Store, error)) (io.WriteCloser, io.Reader) {
	t.Helper()
	opts := &unix.Options{Lenient: c.lenient}
	if c.authKey {
		private, public := testkit.Key(t)
		c.private, opts.Keys = private, []ssh.PublicKey{public}
	}
	l, err := unix.Listen(filepath.Join(t.TempDir(), "s"), unix.Info{Auth: c.authKey})
	if err != nil {
		t.Fatal(err)
	}
	k, end := newKernel(t, c, open)
	ctx, stop := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- unix.NewServer(k, opts).Serve(ctx, l) }()
	// Not through a Dialer, which would answer the challenge.
	conn, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: l.Path(), Net: "unix"})
	if err != nil {
		stop()
		t.Fatal(errors.Join(err, <-served, l.Close(), end()))
	}
	read, write := io.Pipe()
	go func() {
		_, err := io.Copy(write, conn)
		if errors.Is(err, syscall.ECONNRESET) && c.authKey {
			err = nil // closed with something unread, which is what a refusal is
		}
		stop()
		_ = write.CloseWithError(errors.Join(err, conn.Close(), <-served, l.Close(), end()))
	}()
	return halfCloser{conn}, read
}

// halfCloser is the writing half of a connection.
type halfCloser struct{ *net.UnixConn }

func (h halfCloser) Close() error { return h.CloseWrite() }
