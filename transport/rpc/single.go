package rpc

import (
	"context"
	"encoding/json"

	"kernos/kernel"
	"kernos/message"
)

// A Call is one call for a wire that has no use for subscriptions, such as a request of HTTP.
type Call struct {
	Namespace, Method string
	Params            json.RawMessage // may be empty

	// What the message of the call has beside its data. May be empty.
	Correlation, IdempotencyKey string

	// Gone is closed when nobody reads the items any more: a query is cancelled then, a
	// command is completed. Nil means never.
	Gone <-chan struct{}
}

// Call makes one call: item is given each item of the stream in order, the last of which is
// done. The item is valid until it returns. The call goes through the kernel as a connection
// that carries nothing else, so it counts among them and has the same limits. When ctx ends,
// it is cancelled, whatever it is. Streams of Call can't be resumed.
func (s *Service) Call(ctx context.Context, c Call, item func(Item)) {
	st := &stream{svc: s, item: item}
	name := c.Namespace + "_" + c.Method
	if own, ok := s.own(name); ok {
		st.namespace = ownNamespace
		own(st, c.Params)
		return
	}
	m, problem := s.prepare(st, name, c.Params)
	if problem != nil {
		problem(st)
		return
	}
	m.Metadata.Correlation, m.Metadata.IdempotencyKey = c.Correlation, c.IdempotencyKey
	err := m.Validate()
	if err == nil {
		err = s.k.Serve(ctx, &kernel.One{Request: m, Emit: st.emit, Gone: c.Gone})
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	if !st.over { // it was refused, or ctx has ended
		if err == nil {
			err = context.Canceled
		}
		e, _ := message.ErrorOf(err)
		st.fail(e)
	}
}
