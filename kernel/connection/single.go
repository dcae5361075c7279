package connection

import (
	"context"
	"io"

	"kernos/kernel"
	"kernos/message"
)

// ServeOne serves a connection that carries one request, which must be valid. It counts among
// the connections and has the same limits. Its peer can't be sent requests. When gone is
// closed, nothing waits for the answers any more.
func ServeOne(ctx context.Context, k *kernel.Kernel, request message.Message, send kernel.Emit, gone <-chan struct{}) error {
	return New(k, &single{request: request, send: send, gone: gone}, &Options{NoRequests: true}).Serve(ctx)
}

type single struct {
	request message.Message
	send    kernel.Emit
	gone    <-chan struct{}
	sent    bool
}

func (s *single) Next() (message.Message, kernel.Emit, error) {
	if s.sent {
		return message.Message{}, nil, io.EOF
	}
	s.sent = true
	return s.request, s.send, nil
}

func (s *single) Detach() {} // its data is not used for anything else

func (s *single) Flush() {} // nothing is held back

func (s *single) Room(wait bool) bool { return wait }

func (s *single) Left(finished <-chan struct{}) bool {
	select {
	case <-s.gone:
		return true
	case <-finished:
		return false
	}
}
