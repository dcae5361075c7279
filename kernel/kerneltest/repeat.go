package kerneltest

import (
	"io"
	"sync"
	"testing"

	"kernos/kernel"
	"kernos/kernel/connection"
	"kernos/message"
)

// Repeat sends a message b.N times on a connection; several messages are sent on one each, b.N times
// together. Each of them must get a reply.
func Repeat(b *testing.B, k *kernel.Kernel, messages ...message.Message) {
	b.Helper()
	var clients sync.WaitGroup
	for i, m := range messages {
		n := (b.N + i) / len(messages)
		clients.Go(func() {
			replies := 0
			r := &repeated{m: m, left: n, emit: func(m message.Message) {
				if m.Kind == message.KindReply {
					replies++
				}
			}}
			if err := connection.New(k, r, nil).Serve(b.Context()); err != nil || replies != n {
				b.Errorf("%d replies to %d messages, %v", replies, n, err)
			}
		})
	}
	clients.Wait()
}

// repeated is a source of the same message. It implements [connection.Source].
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
func (*repeated) Left(<-chan struct{}) bool { return false }
func (*repeated) Writable(bool) bool        { return true }
