package register

import (
	"github.com/go-json-experiment/json/jsontext"

	"kernos/message"
	"kernos/schema"
)

// maxSchema is how many bytes a schema may have, so that Syscall.Describe fits on a line.
const maxSchema = message.MaxLine

func readSchema(field string, text jsontext.Value) (s *schema.Schema, canonical []byte, err error) {
	if len(text) > maxSchema {
		return nil, nil, invalid(field, "%s: expected at most %d bytes, got %d", field, maxSchema, len(text))
	}
	if s, err = schema.Parse([]byte(text)); err != nil {
		return nil, nil, invalid(field, "%s is %v", field, err)
	}
	c := text.Clone()
	// Whole numbers as they are written: they may be larger than floating point can tell.
	if err := c.Canonicalize(jsontext.CanonicalizeRawInts(false)); err != nil {
		return nil, nil, invalid(field, "%s can't be read", field)
	}
	if string(c) == "{}" || string(c) == "true" {
		s = schema.Any
	}
	return s, c, nil
}
