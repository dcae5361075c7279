package unix

import (
	"io"
	"net"
	"path/filepath"
	"strings"
	"testing"

	"kernos/capability/introspect"
	"kernos/kernel/kerneltest"
)

// BenchmarkSequential sends a Ping and waits for the answer, beside a bare echo over the
// same kind of socket.
func BenchmarkSequential(b *testing.B) {
	line := []byte(ping("msg-0000001"))
	exchange := func(b *testing.B, c io.ReadWriter) {
		buf := make([]byte, 4096)
		for b.Loop() {
			if _, err := c.Write(line); err != nil {
				b.Fatal(err)
			}
			if _, err := c.Read(buf); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.Run("ping", func(b *testing.B) {
		exchange(b, start(b, kerneltest.Around(b, nil, introspect.Module), nil).dial().Conn)
	})
	b.Run("echo", func(b *testing.B) {
		l, err := net.Listen("unix", filepath.Join(b.TempDir(), "s"))
		if err != nil {
			b.Fatal(err)
		}
		defer func() { _ = l.Close() }()
		client, err := net.Dial("unix", l.Addr().String())
		if err != nil {
			b.Fatal(err)
		}
		server, err := l.Accept()
		if err != nil {
			b.Fatal(err)
		}
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			buf := make([]byte, 4096)
			for {
				n, err := server.Read(buf)
				if err != nil {
					return
				}
				_, _ = server.Write(buf[:n])
			}
		}()
		exchange(b, client)
		_ = client.Close()
		<-ended
		_ = server.Close()
	})
}

// BenchmarkPipelined sends without waiting for answers.
func BenchmarkPipelined(b *testing.B) {
	p := start(b, kerneltest.Around(b, nil, introspect.Module), nil).dial()
	const batch = 500
	lines := []byte(strings.Repeat(ping("msg-0000001"), batch))
	go func() {
		for left := b.N; left > 0; left -= batch {
			if _, err := p.Write(lines); err != nil {
				return
			}
		}
		_ = p.CloseWrite()
	}()
	if _, err := io.Copy(io.Discard, p.Conn); err != nil {
		b.Error(err)
	}
}
