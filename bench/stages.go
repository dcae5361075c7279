package main

import (
	"context"
	"io"
	"testing"

	"kernos/capability/introspect"
	"kernos/kernel"
	"kernos/kernel/connection"
	"kernos/message"
)

// stage is one part of the way of a message.
type stage struct {
	name       string
	perMessage float64 // ns
	allocs     float64
}

// stages measures decode, validate, route and encode apart from each other.
func stages(lines [][]byte) []stage {
	messages := make([]message.Message, len(lines))
	for i, line := range lines {
		m, err := message.Decode(line)
		if err != nil {
			panic(err)
		}
		messages[i] = m
	}
	return []stage{
		measure("decode", func(b *testing.B) {
			var d message.Decoder
			for i := range b.N {
				if _, err := d.Decode(lines[i%len(lines)]); err != nil {
					b.Fatal(err)
				}
			}
		}),
		measure("validate", func(b *testing.B) {
			for i := range b.N {
				if err := introspect.Ping.Input.Validate(messages[i%len(messages)].Data); err != nil {
					b.Fatal(err)
				}
			}
		}),
		measure("route (validate included)", func(b *testing.B) {
			src := &source{messages: messages, left: b.N}
			if err := connection.New(newKernel(), src, nil).Serve(context.Background()); err != nil {
				b.Fatal(err)
			}
		}),
		measure("encode", func(b *testing.B) {
			var buf []byte
			for i := range b.N {
				buf = message.Append(buf[:0], &messages[i%len(messages)])
			}
		}),
	}
}

func measure(name string, f func(*testing.B)) stage {
	r := testing.Benchmark(func(b *testing.B) {
		b.ReportAllocs()
		f(b)
	})
	n := float64(r.N)
	return stage{name: name, perMessage: float64(r.T.Nanoseconds()) / n, allocs: float64(r.MemAllocs) / n}
}

func newKernel() *kernel.Kernel {
	r, err := kernel.NewRegistry()
	if err != nil {
		panic(err)
	}
	if err := r.Add(introspect.Module(r)); err != nil {
		panic(err)
	}
	return kernel.New(r, nil)
}

// source hands out messages that are decoded already.
type source struct {
	messages []message.Message
	left     int
}

func (s *source) Next() (*message.Message, kernel.Emit, error) {
	if s.left == 0 {
		return nil, nil, io.EOF
	}
	s.left--
	return &s.messages[s.left%len(s.messages)], drop, nil
}

func (s *source) Detach()                   {}
func (s *source) Flush()                    {}
func (s *source) Writable(bool) bool        { return true }
func (s *source) Left(<-chan struct{}) bool { return false }

func drop(message.Message) {}
