package message

import (
	"fmt"
	"math"

	"kernos/internal/jsonscan"
)

// metadata reads the metadata object at line[i] into e and returns the offset
// behind it. The strings in it share one allocation.
func (d *Decoder) metadata(e *envelope, line []byte, i int) (int, error) {
	start := i
	end, err := d.scan.ValueWithin(line, i, 1)
	if err != nil {
		return end, err
	}
	if line[i] != '{' {
		e.has |= hasID | hasTimestamp // one complaint is enough
		e.wrong("metadata", "object", "metadata must be an object with id and timestamp, got %s", Describe(line[i:end]))
		return end, nil
	}
	text := string(line[start:end])
	i = jsonscan.Space(line, i+1)
	for line[i] != '}' {
		name, at, _ := jsonscan.Name(line, i) // checked above
		at = jsonscan.Space(line, at)
		stop := jsonscan.Skip(line, at)
		m := member{line: line[at:stop], text: text[at-start : stop-start]}
		if !e.readMetadata(line[i+1:name-1], m) {
			// Unknown, or spelled with escapes.
			if s := jsonscan.Unquote(line[i:name]); !e.readMetadata([]byte(s), m) {
				e.unknownMetadata(s)
			}
		}
		if i = jsonscan.Space(line, stop); line[i] == ',' {
			i = jsonscan.Space(line, i+1)
		}
	}
	return end, nil
}

// readMetadata reads one member of metadata. It reports whether there is such a
// member.
func (e *envelope) readMetadata(name []byte, m member) bool {
	switch string(name) {
	case "id":
		e.has |= hasID
		e.Metadata.ID = ID(e.idString("metadata.id", m))
	case "timestamp":
		e.has |= hasTimestamp
		e.Metadata.Timestamp = e.timestamp(m.line)
	case "correlation":
		e.Metadata.Correlation = e.idString("metadata.correlation", m)
	case "causation":
		if m.text != "null" {
			e.Metadata.Causation = ID(e.idString("metadata.causation", m))
		}
	case "idempotencyKey":
		e.Metadata.IdempotencyKey = e.idString("metadata.idempotencyKey", m)
	case "schemaVersion":
		e.Metadata.SchemaVersion = e.idString("metadata.schemaVersion", m)
	default:
		return false
	}
	return true
}

// member is the value of one member of metadata, as part of the line, which will
// be overwritten, and of a copy, which may be kept.
type member struct {
	line []byte
	text string
}

// idString reads a string that names something.
func (e *envelope) idString(field string, m member) string {
	if m.text[0] != '"' {
		e.wrong(field, "string", "%s must be a string, got %s", field, Describe(m.line))
		return ""
	}
	s := m.text[1 : len(m.text)-1]
	plain := true
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' || s[i] >= 0x7F {
			plain = false
			break
		}
	}
	if !plain {
		s = jsonscan.Unquote(m.line)
		for _, r := range s {
			if r < ' ' || r >= 0x7F && r < 0xA0 {
				e.wrong(field, "string without control characters", "%s must not contain control characters (it has U+%04X)", field, r)
				return ""
			}
		}
	}
	switch {
	case s == "":
		e.wrong(field, "non-empty string", "%s must not be empty", field)
	case len(s) > MaxIDLength:
		e.wrong(field, "short string", "%s must have at most %d bytes, got %d", field, MaxIDLength, len(s))
		return ""
	}
	return s
}

// timestamp reads a whole number that is not negative. JSON has several ways to
// write one; the plain way is the only one that all implementations read alike.
func (e *envelope) timestamp(token []byte) int64 {
	var n int64
	for _, c := range token {
		if c < '0' || c > '9' || n > (math.MaxInt64-9)/10 {
			e.wrong("metadata.timestamp", "non-negative integer",
				"metadata.timestamp must be a non-negative integer, milliseconds since 1970, got %s", Describe(token))
			return 0
		}
		n = n*10 + int64(c-'0')
	}
	return n
}

func (e *envelope) unknownMetadata(name string) {
	hint := ""
	switch name {
	case "correlationId", "correlation_id":
		hint = "; did you mean correlation?"
	case "causationId", "causation_id":
		hint = "; did you mean causation?"
	case "idempotency_key", "idempotencykey":
		hint = "; did you mean idempotencyKey?"
	}
	e.wrong("metadata."+Clip(name, 64), "no such field", "unknown field %s in metadata (it may have id, timestamp, correlation, causation, idempotencyKey and schemaVersion%s)",
		fmt.Sprintf("%q", Clip(name, 64)), hint)
}
