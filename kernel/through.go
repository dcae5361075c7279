package kernel

import (
	"encoding/json"

	"kernos/internal/jsonscan"
	"kernos/message"
)

// ThroughType is the syscall that calls another one: {type, data}. The kernel answers it itself:
// the call that it asks for takes its place before anything is decided or recorded, so that all
// rules of the called syscall apply.
const ThroughType message.Type = "Syscall.Call"

// through returns the call that a request for [ThroughType] makes, and what sends the answers
// to it, which have the type that was sent. A request that breaks the schema of ThroughType
// comes back as it is.
func (k *Kernel) through(m *message.Message, emit Emit) (*message.Message, Emit, error) {
	s, ok := k.registry.Lookup(m.Type)
	if !ok || s.fit(m) != nil {
		return m, emit, nil
	}
	inner := *m
	inner.Type = message.Type(jsonscan.Unquote(jsonscan.Member(m.Data, "type")))
	inner.Data = jsonscan.Member(m.Data, "data")
	if inner.Data == nil {
		inner.Data = json.RawMessage(`{}`)
	}
	if inner.Type == ThroughType {
		return m, emit, message.Errorf(422, "Schema validation failed: type: %s can't call itself; name the syscall that is meant", ThroughType)
	}
	if err := inner.Validate(); err != nil {
		return m, emit, err
	}
	asked := m.Type // m may be used again before the answer comes
	return &inner, func(answer message.Message) {
		if answer.Kind.Answers() {
			answer.Type, answer.Via = asked, &message.Via{Type: inner.Type}
		}
		emit(answer)
	}, nil
}
