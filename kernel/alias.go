package kernel

import (
	"bytes"
	"encoding/json"
	"strings"

	"kernos/internal/jsonscan"
	"kernos/internal/jsonvalue"
	"kernos/message"
	"kernos/schema"
)

// Note is the member of an answer's metadata that says how the request was read: 'type' was read as 'name'.
const Note = "x-note"

// Meant returns the data of a request as its syscall takes it: without optional members that are null, and with members that
// came under other names renamed. The note names the latter; it is "" if there are none. Data that is valid, or can't be made so, comes
// back as it is. What looks at data before the kernel does, or keeps it, calls Meant first: the same members mean the same then.
func (k *Kernel) Meant(t message.Type, data []byte) (meant []byte, note string) {
	s, ok := k.registry.Lookup(t)
	if !ok || len(data) == 0 {
		return data, ""
	}
	data, note, _ = s.Reading(data)
	if t != ThroughType {
		return data, note
	}
	inner, payload := message.Type(jsonscan.Unquote(jsonscan.Member(data, "type"))), jsonscan.Member(data, "data")
	if inner == ThroughType {
		return data, note
	}
	if fixed, more := k.Meant(inner, payload); !bytes.Equal(fixed, payload) {
		data = jsonvalue.Members(data).Set("data", fixed).Text()
		note = strings.TrimPrefix(note+"; "+more, "; ")
	}
	return data, strings.TrimSuffix(note, "; ")
}

// fit makes the data of a request what was meant, and returns the error if it doesn't fit its schema. All that follows sees
// the request so: rights, reaches, records, redaction and idempotency.
func (s *Syscall) fit(m *message.Message) error {
	data, note, invalid := s.Reading(m.Data)
	if invalid != nil {
		return invalidInput(invalid)
	}
	m.Data = data
	Noted(m, note)
	return nil
}

// Wrong returns what is wrong with the data of a request, besides what [Kernel.Meant] mends; nil if nothing is.
func (d *Definition) Wrong(data []byte) error {
	_, _, invalid := d.Input.Meant(data)
	return invalid
}

// Reading is [Kernel.Meant] for a definition alone. It also returns what is wrong besides.
func (d *Definition) Reading(data json.RawMessage) (meant json.RawMessage, note string, invalid error) {
	if d.Input == schema.Any {
		return data, "", nil
	}
	meant, all, invalid := d.Input.Meant(data)
	notes := make([]string, len(all))
	for i, r := range all {
		notes[i] = "'" + r.From + "' was read as '" + r.To + "'"
	}
	return meant, strings.Join(notes, "; "), invalid
}

// Noted adds a note to those that the answers to a request have.
func Noted(m *message.Message, note string) {
	if note == "" {
		return
	}
	if earlier := m.Metadata.Extension(Note); earlier != "" {
		note = earlier + "; " + note
	}
	m.Metadata.SetExtension(Note, note)
}
