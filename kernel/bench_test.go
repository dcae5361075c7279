package kernel

import (
	"context"
	"io"
	"testing"

	"kernos/message"
	"kernos/schema"
)

// repeated is a source of the same message many times.
type repeated struct {
	m    message.Message
	left int
	emit Emit
}

func (r *repeated) Next() (message.Message, Emit, error) {
	if r.left == 0 {
		return message.Message{}, nil, io.EOF
	}
	r.left--
	return r.m, r.emit, nil
}

func (*repeated) Detach() {}

// BenchmarkRoute is what the kernel itself costs: from a message that is read to its
// outcome.
func BenchmarkRoute(b *testing.B) {
	type in struct {
		Message string `json:"message"`
	}
	k := newKernel(b, nil, echo("Test.Raw"),
		Query(Definition{Type: "Test.Typed", Summary: "Echo."}, func(_ context.Context, in in) (in, error) { return in, nil }))
	for _, name := range []message.Type{"Test.Raw", "Test.Typed"} {
		b.Run(string(name), func(b *testing.B) {
			b.ReportAllocs()
			replies := 0
			src := &repeated{m: query("1", name, `{"message":"hello"}`), left: b.N, emit: func(m message.Message) {
				if m.Kind == message.KindReply {
					replies++
				}
			}}
			if err := k.Serve(b.Context(), src); err != nil {
				b.Fatal(err)
			}
			if replies != b.N {
				b.Fatalf("%d replies to %d messages", replies, b.N)
			}
		})
	}
}

// BenchmarkRedact is what it costs that everything that is kept is looked at.
func BenchmarkRedact(b *testing.B) {
	marks := &Syscall{Definition: Definition{Type: "Account.Login", Input: parsed(b, `{"properties":{"user":{},"password":{"writeOnly":true}}}`), Output: schema.Any}}
	plain := &Syscall{Definition: Definition{Type: "Memory.Set", Input: schema.Any, Output: schema.Any}}
	for _, c := range []struct {
		name    string
		syscall *Syscall
		data    string
	}{
		{"ordinary", plain, `{"key":"/notes/2024/shopping","value":"bread, milk and a bit of"}`},
		{"nothing marked", marks, `{"user":"ada"}`},
		{"marked", marks, `{"user":"ada","password":"hunter2"}`},
		{"no header", plain, `{"key":"/notes/2024/shopping","value":"bread, milk and a token of affection"}`},
		{"header", plain, `{"url":"https://example.com/","headers":{"Accept":"text/html","Authorization":"Bearer x"}}`},
	} {
		b.Run(c.name, func(b *testing.B) {
			m := command("a", c.syscall.Type, c.data)
			r := Record{Message: &m, Syscall: c.syscall}
			b.ReportAllocs()
			for b.Loop() {
				Redact(r)
			}
		})
	}
}
