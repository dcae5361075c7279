package kernel

import (
	"cmp"
	"encoding/json"
	"strings"

	"kernos/internal/jsonscan"
	"kernos/internal/jsonvalue"
	"kernos/message"
	"kernos/schema"
)

// Note is the member of an answer's metadata that says how the request was read: 'type' was read as 'name'.
const Note = "x-note"

// Renamed returns the data of a request as its syscall takes it, with members that came under other names renamed, and a
// note that names these; "" if there are none. Data that is valid, or can't be made so, comes back as it is. What looks at
// data before the kernel does, or keeps it, calls Renamed first: the same members mean the same then.
func (k *Kernel) Renamed(t message.Type, data []byte) (renamed []byte, note string) {
	s, ok := k.registry.Lookup(t)
	if !ok || len(data) == 0 {
		return data, ""
	}
	if invalid := s.unfit(data); invalid != nil {
		data, note, _ = s.rename(data)
	}
	if t != ThroughType {
		return data, note
	}
	inner, payload := message.Type(jsonscan.Unquote(jsonscan.Member(data, "type"))), jsonscan.Member(data, "data")
	if inner == ThroughType {
		return data, note
	}
	if fixed, more := k.Renamed(inner, payload); more != "" {
		data = jsonvalue.Members(data).Set("data", fixed).Text()
		note = strings.TrimPrefix(note+"; "+more, "; ")
	}
	return data, note
}

// fit renames members of a request that came under other names, and returns the error if it doesn't fit its schema. All
// that follows sees the request with its members renamed: rights, reaches, records, redaction and idempotency.
func (s *Syscall) fit(m *message.Message) error {
	invalid := s.unfit(m.Data)
	if invalid == nil {
		return nil
	}
	data, note, besides := s.rename(m.Data)
	if note == "" {
		return invalidInput(cmp.Or(besides, invalid))
	}
	m.Data = data
	Noted(m, note)
	return nil
}

// Wrong returns what is wrong with the data of a request, besides members that came under other names; nil if nothing is.
func (d *Definition) Wrong(data []byte) error {
	invalid := d.Input.Validate(data)
	if invalid == nil {
		return nil
	}
	_, renamed, besides := d.Input.Rename(data)
	if renamed != nil {
		return nil
	}
	return cmp.Or(besides, invalid)
}

// unfit returns the error of data that the syscall doesn't take.
func (s *Syscall) unfit(data []byte) error {
	if s.Input == schema.Any {
		return nil
	}
	return s.Input.Validate(data)
}

func (s *Syscall) rename(data json.RawMessage) (renamed json.RawMessage, note string, invalid error) {
	renamed, all, invalid := s.Input.Rename(data)
	notes := make([]string, len(all))
	for i, r := range all {
		notes[i] = "'" + r.From + "' was read as '" + r.To + "'"
	}
	return renamed, strings.Join(notes, "; "), invalid
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
