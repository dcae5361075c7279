package connection_test

import (
	"context"
	"io"
	"testing"

	"kernos/kernel"
	"kernos/kernel/connection"
	"kernos/kernel/kerneltest"
	"kernos/message"
)

// repeated is a source of the same message many times.
type repeated struct {
	m    message.Message
	left int
	emit kernel.Emit
}

func (r *repeated) Next() (*message.Message, kernel.Emit, error) {
	if r.left == 0 {
		return nil, nil, io.EOF
	}
	r.left--
	return &r.m, r.emit, nil
}

func (*repeated) Detach()                   {}
func (*repeated) Flush()                    {}
func (*repeated) Room(bool) bool            { return true }
func (*repeated) Left(<-chan struct{}) bool { return false }

// BenchmarkRoute is what the kernel itself costs: from a message that is read to its
// outcome.
func BenchmarkRoute(b *testing.B) {
	type in struct {
		Message string `json:"message"`
	}
	k := kerneltest.New(b, nil, kerneltest.Echo("Test.Raw"),
		kernel.Query(kernel.Definition{Type: "Test.Typed", Summary: "Echo."}, func(_ context.Context, in in) (in, error) { return in, nil }))
	for _, name := range []message.Type{"Test.Raw", "Test.Typed"} {
		b.Run(string(name), func(b *testing.B) {
			b.ReportAllocs()
			replies := 0
			src := &repeated{m: kerneltest.Query("1", name, `{"message":"hello"}`), left: b.N, emit: func(m message.Message) {
				if m.Kind == message.KindReply {
					replies++
				}
			}}
			if err := connection.New(k, src, nil).Serve(b.Context()); err != nil {
				b.Fatal(err)
			}
			if replies != b.N {
				b.Fatalf("%d replies to %d messages", replies, b.N)
			}
		})
	}
}
