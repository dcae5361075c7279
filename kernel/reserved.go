package kernel

import (
	"strings"

	"kernos/message"
)

// Reserved reports whether a type belongs to the framework: code that is registered at run
// time may not use it, nor may events from outside. Some callers can't tell upper and lower
// case apart.
func Reserved(t message.Type) bool {
	d := t.Domain()
	return strings.EqualFold(d, "Syscall") || strings.EqualFold(d, "Sys") || strings.EqualFold(d, "Kernel")
}

// CheckForeignEvent returns the error for an event from outside that only the kernel or a
// built-in syscall may emit, so that watchers can rely on it; nil for other types.
func (k *Kernel) CheckForeignEvent(event message.Type) *message.Error {
	if Reserved(event) {
		return message.Errorf(403, "The event %s can't be sent from outside: Syscall.*, Sys.* and Kernel.* are reserved; choose another name", event)
	}
	if by, ok := k.registry.state.Load().events[event]; ok {
		return message.Errorf(403, "%s is an event of %s, which is built in, and can't be sent from outside; choose another name", event, by)
	}
	return nil
}
