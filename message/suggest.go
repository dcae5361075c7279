package message

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"kernos/internal/nearest"
)

// question asks whether one of the names was meant; "" if there are none.
func question[T ~string](names []T) string {
	if len(names) == 0 {
		return ""
	}
	return " (" + nearest.Ask(names) + ")"
}

// suggestKind returns the question about a word that is not a kind.
func (d *Dialect) suggestKind(word string) string {
	if word == Current.Reply || word == "response" { // the word for a reply in either dialect
		return question([]string{d.Reply})
	}
	return question(nearest.Names(word, []string{"command", "query", "event", d.Reply, "error"}))
}

// suggestType returns the question about a text that is not a type. A guess is made only if
// it isn't known which types exist.
func (d *Decoder) suggestType(written string) string {
	if d.Near == nil {
		if t := Repair(written); t != "" {
			return question([]Type{t})
		}
		return ""
	}
	return question(d.Near(written))
}

// others are the names that other protocols, and version 0.1, have for the members of a message.
var others = map[string]string{
	"name": "type", "method": "type", "payload": "data", "params": "data", "arguments": "data", "input": "data", "meta": "metadata",
}

// suggestMember returns the question about a member that a message doesn't have. Members that
// the message has already are not suggested.
func (e *envelope) suggestMember(names *Dialect, unknown string) string {
	var absent []string
	for bit := hasKind; bit <= hasMetadata; bit <<= 1 {
		if e.has&bit == 0 || bit == hasType && e.kindAsType {
			absent = append(absent, names.memberName(bit))
		}
	}
	if meant := others[unknown]; names == Current && slices.Contains(absent, meant) {
		return question([]string{meant})
	}
	if metadataMember([]byte(unknown)) >= 0 {
		return question([]string{"metadata." + unknown})
	}
	return question(nearest.Names(unknown, absent))
}

// unknownMember describes a member that a message doesn't have.
func (e *envelope) unknownMember(names *Dialect, unknown string) string {
	hint := cmp.Or(e.suggestMember(names, unknown), fmt.Sprintf(" (a message has %s, %s, %s and metadata)", names.Kind, names.Type, names.Data))
	return fmt.Sprintf("unknown field %q%s", Clip(unknown, 64), hint)
}

// unknownMetadata describes a member that metadata doesn't have; absent are those that it could
// have and lacks.
func unknownMetadata(unknown string, absent []string) string {
	hint := cmp.Or(question(nearest.Names(unknown, absent)), " (it may have id, timestamp, correlation, causation, idempotencyKey, schemaVersion, traceparent, tracestate, and names that begin with x-)")
	return fmt.Sprintf("unknown field %q in metadata%s", Clip(unknown, 64), hint)
}

// maxNamed is how many problems, and how many unknown members, are named beside the missing members.
const maxNamed = 8

// missing returns the error for required members that the envelope lacks, or nil. It also names
// the members that the envelope should not have, which may be the missing ones, misspelt, and all that is wrong.
func (e *envelope) missing(names *Dialect, lenient bool) *Error {
	var missing []string
	var first string // the expected value of the first missing member
	for _, m := range []struct {
		bit            int
		name, expected string
	}{
		{hasKind, names.Kind, "string"}, {hasType, names.Type, "string"}, {hasData, names.Data, "any JSON value"},
		{hasMetadata, "metadata", "object"}, {hasID, "metadata.id", "string"}, {hasTimestamp, "metadata.timestamp", "non-negative integer"},
	} {
		if lenient && m.bit == hasMetadata {
			break
		}
		if e.has&m.bit == 0 {
			missing, first = append(missing, m.name), cmp.Or(first, m.expected)
			if m.bit == hasMetadata {
				break
			}
		}
	}
	if len(missing) == 0 {
		return nil
	}
	text := "Missing required field: "
	if len(missing) > 1 {
		text = "Missing required fields: "
	}
	parts := []string{text + strings.Join(missing, ", ")}
	if e.kindAsType {
		parts = append(parts, fmt.Sprintf("%s has a kind as its value (did you mean %s?)", names.Type, names.Kind))
	}
	for _, unknown := range e.unknown[:min(len(e.unknown), maxNamed)] {
		parts = append(parts, e.unknownMember(names, unknown))
	}
	for _, p := range e.problems {
		if !e.kindAsType || p.field != names.Type {
			parts = append(parts, p.text)
		}
	}
	return &Error{Code: 422, Message: strings.Join(parts, "; "), Field: missing[0], Expected: first}
}
