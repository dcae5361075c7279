package message

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"kernos/internal/jsonscan"
)

// The members of metadata.
const (
	memberID = iota
	memberTimestamp
	memberCorrelation
	memberCausation
	memberIdempotencyKey
	memberSchemaVersion
	memberRepeated // not for people to write
	members
)

// olderVersions are those that are still read, and migrated.
var olderVersions = []string{"0.1", "0.2"}

// Version returns the version that the metadata names, without its patch: 0.3 for 0.3.1. It is
// "" for one that isn't read, and for none.
func (m *Metadata) Version() string {
	v := m.SchemaVersion
	if minor := strings.LastIndexByte(v, '.'); strings.Count(v, ".") == 2 {
		if _, err := strconv.ParseUint(v[minor+1:], 10, 32); err != nil {
			return ""
		}
		v = v[:minor]
	}
	if v == Current.Version || slices.Contains(olderVersions, v) {
		return v
	}
	return ""
}

// Older reports whether the metadata names an older version.
func (m *Metadata) Older() bool {
	return m.SchemaVersion != "" && slices.Contains(olderVersions, m.Version())
}

// Migrate sets the version in the metadata to the current one, if it is an older one.
func (m *Metadata) Migrate() {
	if m.Older() {
		m.SchemaVersion = Current.Version
	}
}

var metadataNames = [members]string{"id", "timestamp", "correlation", "causation", "idempotencyKey", "schemaVersion", "repeated"}

func metadataMember(name []byte) int {
	switch string(name) {
	case "id":
		return memberID
	case "timestamp":
		return memberTimestamp
	case "correlation":
		return memberCorrelation
	case "causation":
		return memberCausation
	case "idempotencyKey":
		return memberIdempotencyKey
	case "schemaVersion":
		return memberSchemaVersion
	case "repeated":
		return memberRepeated
	}
	return -1
}

// metadata reads the metadata object at line[i] into e and returns the offset
// after it. The error is a *jsonscan.SyntaxError.
func (d *Decoder) metadata(e *envelope, line []byte, i int) (int, error) {
	start := i
	if i >= len(line) || line[i] != '{' {
		end, err := d.scan.ValueWithin(line, i, 1)
		if err == nil && (line[i] != 'n' || !d.Lenient) {
			e.has |= hasID | hasTimestamp // without these, the error would also name id and timestamp as missing
			e.wrong("metadata", "object", "metadata must be an object with id and timestamp, got %s", kindName(line[i:end]))
		}
		return end, err
	}
	var found [members]struct{ start, end int }
	var unknown, extensions []string
	var extra []byte
	i = jsonscan.Space(line, i+1)
	for more := i >= len(line) || line[i] != '}'; more; {
		name, at, err := jsonscan.Name(line, i)
		if err != nil {
			return i, err
		}
		at = jsonscan.Space(line, at)
		m := metadataMember(line[i+1 : name-1])
		extension := ""
		if m < 0 { // an extension, unknown, or spelled with escapes
			s := jsonscan.Unquote(line[i:name])
			switch m = metadataMember([]byte(s)); {
			case m >= 0:
			case IsExtension(s):
				extension = s
				extensions, err = d.unknown(extensions, s, line, start, i)
			default:
				unknown, err = d.unknown(unknown, s, line, start, i)
			}
			if err != nil {
				return i, err
			}
		}
		if m >= 0 && found[m].end != 0 {
			return i, repeated(jsonscan.Unquote(line[i:name]), i)
		}
		if i, err = d.scan.ValueWithin(line, at, 2); err != nil {
			return i, err
		}
		if m >= 0 {
			found[m].start, found[m].end = at, i
		} else if extension != "" {
			extra = e.extension(extra, extension, line[at:i])
		}
		if i, more, err = next(line, i); err != nil {
			return i, err
		}
	}
	end := i + 1
	text := string(line[start:end]) // the strings share one allocation
	for m, f := range found {
		if f.end == 0 || line[f.start] == 'n' && (m > memberTimestamp || d.Lenient) { // null says that it is absent
			continue
		}
		e.readMetadata(m, member{line: line[f.start:f.end], text: text[f.start-start : f.end-start]})
	}
	e.keepExtra(len(extensions), extra)
	for _, name := range unknown {
		var absent []string
		for m, f := range found {
			if f.end == 0 && m != memberRepeated {
				absent = append(absent, metadataNames[m])
			}
		}
		e.wrong("metadata."+Clip(name, 64), "no such field", "%s", unknownMetadata(name, absent))
	}
	return end, nil
}

func (e *envelope) readMetadata(which int, m member) {
	switch which {
	case memberID:
		e.has |= hasID
		e.Metadata.ID = ID(e.idString("metadata.id", m))
	case memberTimestamp:
		e.has |= hasTimestamp
		e.Metadata.Timestamp = e.timestamp(m.line)
	case memberCorrelation:
		e.Metadata.Correlation = e.idString("metadata.correlation", m)
	case memberCausation:
		e.Metadata.Causation = ID(e.idString("metadata.causation", m))
	case memberIdempotencyKey:
		e.Metadata.IdempotencyKey = e.idString("metadata.idempotencyKey", m)
	case memberSchemaVersion:
		v := e.idString("metadata.schemaVersion", m)
		e.Metadata.SchemaVersion = v
		if v != "" && e.Metadata.Version() == "" {
			e.wrong("metadata.schemaVersion", "0.1, 0.2 or 0.3", "metadata.schemaVersion must be 0.1, 0.2 or 0.3, or one of their patches such as 0.3.1, or left out; got %s", Describe(m.line))
		}
	case memberRepeated:
		e.Metadata.Repeated = m.text == "true"
		if m.text != "true" && m.text != "false" {
			e.wrong("metadata.repeated", "boolean", "metadata.repeated must be true or false, got %s", Describe(m.line))
		}
	}
}

// member is the value of one member of metadata, as part of the line, which will
// be overwritten, and of a copy, which may be kept.
type member struct {
	line []byte
	text string
}

// idString reads a string that names something.
func (e *envelope) idString(field string, m member) string {
	return e.shortString(field, m, MaxIDLength)
}

// shortString reads a string of at most limit bytes without control characters.
func (e *envelope) shortString(field string, m member, limit int) string {
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
	case len(s) > limit:
		e.wrong(field, "short string", "%s must have at most %d bytes, got %d", field, limit, len(s))
		return ""
	}
	return s
}

// timestamp reads a whole number that is not negative. JSON has several ways to
// write one; the plain way is the only one that all implementations read alike.
func (e *envelope) timestamp(token []byte) int64 {
	var n int64
	for _, c := range token {
		digit := int64(c - '0')
		if c >= '0' && c <= '9' && n <= (math.MaxInt64-digit)/10 {
			n = n*10 + digit
			continue
		}
		e.wrong("metadata.timestamp", "non-negative integer",
			"metadata.timestamp must be a non-negative 64-bit integer in plain digits, milliseconds since 1970; got %s", Describe(token))
		return 0
	}
	return n
}
