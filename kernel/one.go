package kernel

import (
	"io"

	"kernos/message"
)

// A One is a connection that carries one request, which must be valid. It goes through
// [Kernel.Serve] as connections do that carry many, so that it counts among them and has the
// same limits. Its peer can't be asked anything.
type One struct {
	Request message.Message
	Emit    Emit
	Gone    <-chan struct{} // closed when nobody waits for the answers any more

	sent bool
}

// Next implements [Source].
func (o *One) Next() (message.Message, Emit, error) {
	if o.sent {
		return message.Message{}, nil, io.EOF
	}
	o.sent = true
	return o.Request, o.Emit, nil
}

// Detach implements [Source].
func (o *One) Detach() {} // the data is nobody else's

// Serving implements [Controller].
func (o *One) Serving(func(message.ID) bool) int { return 0 }

// Left implements [Leaver].
func (o *One) Left(finished <-chan struct{}) bool {
	select {
	case <-o.Gone:
		return true
	case <-finished:
		return false
	}
}
