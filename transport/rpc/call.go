package rpc

import (
	"bytes"
	"context"
	"encoding/json"

	"kernos/internal/jsonscan"
	"kernos/kernel/connection"
	"kernos/message"
)

// A Call is one call for a wire that carries no frames, such as a request of HTTP.
type Call struct {
	Method string          // memory_get; methods of the service itself too
	Params json.RawMessage // in any of their forms; one value is a list with it; may be empty

	// What the message of the call has beside its data. May be empty.
	Correlation, IdempotencyKey string
}

// An Outcome is what came of a call for a caller that does not take its items.
type Outcome struct {
	Request  message.ID      // that the kernel knows the call by; "" if it never got there
	Data     json.RawMessage // what was replied
	Err      *message.Error  // what went wrong; nil if there was a reply
	Guidance json.RawMessage // the item that would have come before the error; nil if none
}

// ErrorKind is the kind of error that there is guidance about, such as method_not_found; ""
// if there is none.
func (o *Outcome) ErrorKind() string { return text(jsonscan.Member(o.Guidance, "error_kind")) }

// Call makes one call, to the end. It goes through the kernel as a connection that carries
// nothing else, so it counts among them and has the same limits. When gone is closed, which
// may be nil, the caller has gone: a query is cancelled then, a command is completed. When
// ctx ends, the call is cancelled, whatever it is.
//
// The error is a *message.Error: what the message of the call has is not valid.
func (s *Service) Call(ctx context.Context, c Call, gone <-chan struct{}) (Outcome, error) {
	var outcome Outcome
	st := &stream{svc: s, outcome: &outcome}
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
	if c.Correlation == "" && c.IdempotencyKey == "" {
		return t, nil
	}
	t.m.Metadata.Correlation, t.m.Metadata.IdempotencyKey = c.Correlation, c.IdempotencyKey
	// The kernel checks them with the rest of a message. If the call never gets there they
	// have to be valid all the same.
	about := message.Message{Kind: message.KindQuery, Type: "Ping", Data: emptyObject, Metadata: t.m.Metadata}
	s.k.Stamp(&about)
	return t, about.Validate()
}
