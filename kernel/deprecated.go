package kernel

import (
	"kernos/internal/jsonvalue"
	"kernos/message"
)

// DeprecatedEvent is the event that comes before the answer to a message that uses what is
// deprecated. Its data is a [Deprecation].
const DeprecatedEvent message.Type = "Syscall.Deprecated"

// A Deprecation is the use of a form that still works, and will go.
type Deprecation struct {
	What    string `json:"what"`
	Instead string `json:"instead"`
	Since   string `json:"since"` // the day on which it was deprecated
	Until   string `json:"until"` // the last day on which it works for certain
}

// Older versions of the message schema and their names were deprecated by version 0.3 of the specification.
const (
	deprecatedSince = "2026-01-02"
	deprecatedUntil = "2027-12-31"
)

// Deprecated returns an event [DeprecatedEvent] for the sender of a message that uses what is
// deprecated. The operator's log has one line for each principal, wire and form.
func (k *Kernel) Deprecated(m *message.Message, what, instead string, from Sender) message.Message {
	name, wire := from.Principal().Name(), from.Wire()
	if _, logged := k.deprecated.LoadOrStore([3]string{name, wire, what}, nil); !logged {
		k.opts.Log.Warn("a connection uses what is deprecated", "what", what, "instead", instead, "until", deprecatedUntil, "principal", name, "wire", wire)
	}
	event := m.Event(DeprecatedEvent, jsonvalue.Marshal(Deprecation{what, instead, deprecatedSince, deprecatedUntil}))
	k.Stamp(&event)
	return event
}

// instead returns the name that takes the place of one under which the syscall was called, or "".
func (s *Syscall) instead(called message.Type) message.Type {
	if called != s.Type {
		return s.Type
	}
	return s.Replaced
}
