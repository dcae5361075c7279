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

// ownEvents are the events of one catalog that built-in syscalls emit, with those syscalls.
type ownEvents struct {
	of *catalog
	by map[message.Type]message.Type
}

// add adds the events of syscalls, unless they are served by a program, which sends them. Of
// two with the same event the first is named.
func (o *ownEvents) add(syscalls []Syscall) {
	for i := range syscalls {
		s := &syscalls[i]
		for _, e := range s.Emits {
			if _, known := o.by[e.Type]; !known && s.Provider == BuiltIn {
				o.by[e.Type] = s.Type
			}
		}
	}
}

// CheckForeignEvent returns the error for an event from outside that only the kernel or a
// built-in syscall may emit, so that watchers can rely on it; nil for other types.
func (k *Kernel) CheckForeignEvent(event message.Type) *message.Error {
	if Reserved(event) {
		return message.Errorf(403, "The event %s can't be sent from outside: Syscall.*, Sys.* and Kernel.* are reserved; choose another name", event)
	}
	c := k.registry.state.Load()
	own := k.own.Load()
	if own == nil || own.of != c {
		own = &ownEvents{of: c, by: make(map[message.Type]message.Type)}
		for i := range c.modules {
			own.add(c.modules[i].Syscalls)
		}
		k.own.Store(own)
	}
	if by, ok := own.by[event]; ok {
		return message.Errorf(403, "%s is an event of %s, which is built in, and can't be sent from outside; choose another name", event, by)
	}
	return nil
}
