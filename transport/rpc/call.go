package rpc

import (
	"bytes"
	"context"
	"encoding/json"

	"kernos/kernel"
	"kernos/kernel/connection"
	"kernos/message"
)

// task prepares a call: what is to be done is something for the kernel, or for the service
// itself, which may be to report on the stream why there is nothing to do.
func (s *Service) task(st *stream, method string, params []byte) (t task) {
	st.method = method
	if own, ok := s.own(method); ok {
		st.namespace = ownNamespace
		t.run = func() { own(st, params) }
		return t
	}
	route, ok := s.k.Registry().LookupMethod(method)
	if !ok {
		st.namespace = ownNamespace
		t.run = st.unknown(method)
		return t
	}
	st.route, st.namespace = route, route.Namespace
	data, err := dataOf(route, params)
	if err != nil {
		t.run = func() { st.invalid(err) }
		if no := st.from.Principal().May(route.Syscall.Target()); no != nil { // a caller without the right doesn't learn the parameters
			t.run = func() { st.forbid(no) }
		}
		return t
	}
	st.params = data
	t.m, t.emit = message.Message{Kind: route.Syscall.Kind, Type: route.Type, Data: data}, st.emit
	s.k.Stamp(&t.m)
	st.request = t.m.Metadata.ID
	return t
}

// A Call is one call for a wire that carries no frames, such as a request of HTTP.
type Call struct {
	Method string          // memory_get; methods of the service itself too
	Params json.RawMessage // an object, a list, or one value, which stands for a list with it; may be empty

	// What the message of the call has beside its data. May be empty.
	Correlation, Causation, IdempotencyKey, Extra string
}

// Call makes one call, to the end. It goes through the kernel as a connection that carries
// nothing else, so it counts among them and has the same limits. When gone is closed, which
// may be nil, the caller has gone: a query is cancelled then, a command is completed. When
// ctx ends, the call is cancelled, whatever it is.
//
// The error is a *message.Error: what the message of the call has is not valid.
func (s *Service) Call(ctx context.Context, c Call, gone <-chan struct{}) (Outcome, error) {
	var outcome Outcome
	st := &stream{svc: s, from: kernel.SenderIn(ctx), outcome: &outcome}
	t, err := s.compose(st, c)
	if err != nil {
		return outcome, err
	}
	outcome.Request = st.request
	if t.run != nil {
		t.run()
		return outcome, nil
	}
	err = connection.ServeOne(ctx, s.k, t.m, t.emit, gone)
	st.mu.Lock()
	defer st.mu.Unlock()
	if !st.over {
		if err == nil {
			err = context.Canceled
		}
		e, _ := message.ErrorOf(err)
		st.fail(e)
	}
	return outcome, nil
}

// compose is task for a call. The error is a *message.Error.
func (s *Service) compose(st *stream, c Call) (task, error) {
	params := bytes.TrimSpace(c.Params)
	if len(params) > 0 && params[0] != '{' && params[0] != '[' {
		params = append(append([]byte{'['}, params...), ']')
	}
	t := s.task(st, c.Method, params)
	if c.Correlation == "" && c.Causation == "" && c.IdempotencyKey == "" && c.Extra == "" {
		return t, nil
	}
	t.m.Metadata.Extra = c.Extra
	t.m.Metadata.Correlation, t.m.Metadata.Causation, t.m.Metadata.IdempotencyKey = c.Correlation, message.ID(c.Causation), c.IdempotencyKey
	err := s.check(t.m.Metadata)
	if err != nil {
		e, _ := message.ErrorOf(err)
		st.record(e)
	}
	return t, err
}
