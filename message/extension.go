package message

import (
	"strings"

	"kernos/internal/jsonscan"
)

// Metadata may have members that Kernos doesn't know, and that other programs read: those whose names begin with x-,
// and the trace of W3C Trace Context.
const (
	extensionPrefix = "x-"

	Traceparent = "traceparent"
	Tracestate  = "tracestate"

	// Step names the step of a job that a call is, and that its answer is about.
	Step = "x-step"

	// MaxExtra is how many bytes all of them may have as [Metadata.Extra] holds them: every answer repeats them.
	MaxExtra = 1024

	maxTrace = 512 // bytes of a traceparent or a tracestate
)

// IsExtension reports whether metadata may have a member of this name although Kernos doesn't know it.
func IsExtension(name string) bool {
	return isTrace(name) || len(name) > len(extensionPrefix) && strings.HasPrefix(name, extensionPrefix)
}

func isTrace(name string) bool { return name == Traceparent || name == Tracestate }

// appendExtension appends a member to those that Extra holds.
func appendExtension(extra []byte, name string, value []byte) []byte {
	if len(extra) > 0 {
		extra = append(extra, ',')
	}
	return jsonscan.AppendCompact(append(jsonscan.AppendQuoted(extra, name), ':'), value)
}

// extension is appendExtension for a member of a message. A trace has to be a text.
func (e *envelope) extension(extra []byte, name string, value []byte) []byte {
	if isTrace(name) {
		if value[0] == 'n' {
			return extra // null says that it is absent
		}
		e.shortString("metadata."+name, member{line: value, text: string(value)}, maxTrace)
	}
	return appendExtension(extra, name, value)
}

// keepExtra sets Extra to n members, within the limits.
func (e *envelope) keepExtra(n int, extra []byte) {
	if n > maxUnknown || len(extra) > MaxExtra {
		e.wrong("metadata", "few short members", "metadata may have at most %d members that begin with x- or are traceparent or tracestate, of %d bytes together; got %d bytes",
			maxUnknown, MaxExtra, len(extra))
		return
	}
	e.Metadata.Extra = string(extra)
}

// Keep adds the members of a JSON object that metadata may have although Kernos doesn't know them. [Message.Validate] checks
// them.
func (m *Metadata) Keep(object []byte) {
	if len(object) == 0 || object[0] != '{' {
		return
	}
	extra := []byte(m.Extra)
	jsonscan.Members(object, 0, func(name, value []byte) bool {
		if name := jsonscan.Unquote(name); IsExtension(name) && (value[0] != 'n' || !isTrace(name)) {
			extra = appendExtension(extra, name, value)
		}
		return true
	})
	m.Extra = string(extra)
}

// SetExtension sets a member of Extra to a text, in the place of one of that name. A text for which there is no room is left out.
func (m *Metadata) SetExtension(name, text string) {
	var extra []byte
	jsonscan.Members([]byte("{"+m.Extra+"}"), 0, func(other, value []byte) bool {
		if other := jsonscan.Unquote(other); other != name {
			extra = appendExtension(extra, other, value)
		}
		return true
	})
	if set := appendExtension(extra, name, jsonscan.AppendQuoted(nil, text)); len(set) <= MaxExtra {
		extra = set
	}
	m.Extra = string(extra)
}

// Extension returns the text of a member of Extra, or "".
func (m *Metadata) Extension(name string) string {
	if m.Extra == "" {
		return ""
	}
	return jsonscan.Unquote(jsonscan.Member([]byte("{"+m.Extra+"}"), name))
}

// Trace returns the members of Extra that a message passes on to what it causes: traceparent and tracestate.
func (m *Metadata) Trace() string {
	if m.Extra == "" {
		return ""
	}
	var trace []byte
	jsonscan.Members([]byte("{"+m.Extra+"}"), 0, func(name, value []byte) bool {
		if name := jsonscan.Unquote(name); isTrace(name) {
			trace = appendExtension(trace, name, value)
		}
		return true
	})
	return string(trace)
}
