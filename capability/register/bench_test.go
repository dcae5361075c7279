package register

import (
	"bufio"
	"net"
	"path/filepath"
	"testing"

	"kernos/message"
	"kernos/transport"
)

// BenchmarkCall compares a call that the kernel answers itself with one that goes through
// it to a program on another connection: one after the other, over sockets.
func BenchmarkCall(b *testing.B) {
	const ask = `{"kind":"query","type":"Ping","data":{"payload":"a text of some length, as it may be"},"metadata":{"id":"msg-0000000","timestamp":1735000000000}}` + "\n"
	const askProgram = `{"kind":"query","type":"Bench.Echo","data":{"payload":"a text of some length, as it may be"},"metadata":{"id":"msg-0000000","timestamp":1735000000000}}` + "\n"
	k := newKernel(b, nil, nil)
	dial := socket(b, func(c net.Conn) {
		_, _ = transport.Serve(b.Context(), k, c, c, nil)
	})
	caller, program := dial(), dial()
	answers := bufio.NewReader(caller)
	call := func(b *testing.B, line string) {
		for b.Loop() {
			if _, err := caller.Write([]byte(line)); err != nil {
				b.Fatal(err)
			}
			if answer, err := answers.ReadSlice('\n'); err != nil || answer[9] != 'r' {
				b.Fatalf("%s: %v", answer, err)
			}
		}
	}
	requests := bufio.NewReader(program)
	if _, err := program.Write([]byte(registration("Bench.Echo", "") + "\n")); err != nil {
		b.Fatal(err)
	}
	if answer, err := requests.ReadSlice('\n'); err != nil || answer[9] != 'r' {
		b.Fatalf("%s: %v", answer, err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		var d message.Decoder
		var out []byte
		for {
			line, err := requests.ReadSlice('\n')
			if err != nil {
				return
			}
			m, rejection := d.Decode(line)
			if rejection != nil || !m.Kind.Asks() {
				continue
			}
			reply := m.Reply(m.Data)
			reply.Metadata.ID, reply.Metadata.Timestamp = "r-"+m.Metadata.ID, m.Metadata.Timestamp
			out = append(message.Append(out[:0], &reply), '\n')
			if _, err := program.Write(out); err != nil {
				return
			}
		}
	}()
	b.Run("direct", func(b *testing.B) { call(b, ask) })
	b.Run("program", func(b *testing.B) { call(b, askProgram) })
	_ = program.Close()
	<-ended
}

// socket listens on a socket, and returns what connects to it.
func socket(b *testing.B, serve func(net.Conn)) (dial func() net.Conn) {
	b.Helper()
	l, err := net.Listen("unix", filepath.Join(b.TempDir(), "s"))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = l.Close() })
	return func() net.Conn {
		c, err := net.Dial("unix", l.Addr().String())
		if err != nil {
			b.Fatal(err)
		}
		served, err := l.Accept()
		if err != nil {
			b.Fatal(err)
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			defer served.Close()
			serve(served)
		}()
		b.Cleanup(func() {
			_ = c.Close()
			<-done
		})
		return c
	}
}
