package transport_test

import (
	"bytes"
	"fmt"
	"io"
	"testing"

	"kernos/capability/introspect"
	"kernos/kernel/kerneltest"
	"kernos/transport"
)

// BenchmarkStream is the whole way of a message, from line to line.
func BenchmarkStream(b *testing.B) {
	for _, size := range []int{20, 8000} {
		b.Run(fmt.Sprintf("payload=%d", size), func(b *testing.B) {
			k := kerneltest.Around(b, nil, introspect.Module)
			line := fmt.Appendf(nil, `{"kind":"query","type":"Ping","data":{"payload":"%s"},"metadata":{"id":"msg-0000000","timestamp":1735000000000}}`+"\n",
				bytes.Repeat([]byte("x"), size))
			b.SetBytes(int64(len(line)))
			b.ReportAllocs()
			in := &repeat{line: line, left: b.N}
			if _, err := transport.Serve(b.Context(), k, in, io.Discard, nil); err != nil {
				b.Fatal(err)
			}
		})
	}
}

// repeat is a reader of the same line many times.
type repeat struct {
	line []byte
	left int
	rest []byte
}

func (r *repeat) Read(p []byte) (int, error) {
	n := 0
	for n < len(p) {
		if len(r.rest) == 0 {
			if r.left == 0 {
				break
			}
			r.left--
			r.rest = r.line
		}
		c := copy(p[n:], r.rest)
		r.rest = r.rest[c:]
		n += c
	}
	if n == 0 {
		return 0, io.EOF
	}
	return n, nil
}
