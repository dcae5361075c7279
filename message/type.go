package message

import "strings"

// A Type is what a message is about: Domain.Action, both in PascalCase. The
// kernel owns the only two names of one segment, [Echo] and [Ping].
type Type string

const (
	Echo Type = "Echo"
	Ping Type = "Ping"

	// ValidationFailed is the type of an error that answers a line whose own type
	// can't be read.
	ValidationFailed Type = "Validation.Failed"
)

// MaxTypeLength is the most bytes that a type may have.
const MaxTypeLength = 128

// Valid reports whether t may be the type of a message.
func (t Type) Valid() bool {
	if len(t) > MaxTypeLength {
		return false
	}
	if t == Echo || t == Ping {
		return true
	}
	domain, action, ok := strings.Cut(string(t), ".")
	return ok && pascal(domain) && pascal(action)
}

// Domain returns the part before the dot, or "" for a name of one segment.
func (t Type) Domain() string {
	domain, _, ok := strings.Cut(string(t), ".")
	if !ok {
		return ""
	}
	return domain
}

// Action returns the part after the dot, or all of a name of one segment.
func (t Type) Action() string {
	_, action, ok := strings.Cut(string(t), ".")
	if !ok {
		return string(t)
	}
	return action
}

func pascal(s string) bool {
	if s == "" || s[0] < 'A' || s[0] > 'Z' {
		return false
	}
	for i := 1; i < len(s); i++ {
		c := s[i]
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') {
			return false
		}
	}
	return true
}

// Repair guesses the type that was meant by a name that is not one: memory.get,
// memory_get and memory/get all mean Memory.Get. It returns "" if it can't.
func Repair(name string) Type {
	if len(name) > MaxTypeLength {
		return ""
	}
	words := strings.FieldsFunc(name, func(r rune) bool {
		return r == '.' || r == '_' || r == '/' || r == '-' || r == ':' || r == ' '
	})
	if len(words) == 0 {
		return ""
	}
	for i, w := range words {
		words[i] = strings.ToUpper(w[:1]) + w[1:]
	}
	t := Type(words[0])
	if len(words) > 1 {
		t += Type("." + strings.Join(words[1:], ""))
	}
	if !t.Valid() || string(t) == name {
		return ""
	}
	return t
}
