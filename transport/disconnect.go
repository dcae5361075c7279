package transport

import (
	"errors"
	"time"

	"kernos/kernel"
	"kernos/message"
)

// Disconnected is the type of the error that is the last line of an NDJSON connection which
// the server refuses or closes. It answers no request, so it has no causation.
const Disconnected message.Type = "Syscall.Disconnected"

// LastLine returns the last line of such a connection.
func LastLine(k *kernel.Kernel, why *message.Error) []byte {
	m := message.Message{Kind: message.KindError, Type: Disconnected, Data: why.Append(nil)}
	k.Stamp(&m)
	return append(message.Append(nil, &m), '\n')
}

// ErrIdle ends a connection on which nothing happens.
var ErrIdle = errors.New("the peer was silent for too long")

// IdleError returns the error for the peer of such a connection, with what to do.
func IdleError(idle time.Duration, next string) *message.Error {
	return message.Errorf(408, "Nothing has come for %v, and nothing was under way; %s", idle, next)
}
