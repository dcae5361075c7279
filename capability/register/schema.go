package register

import (
	"errors"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"golang.org/x/text/language"
	textmessage "golang.org/x/text/message"

	"kernos/message"
	"kernos/schema"
)

// maxSchema is how many bytes a schema may have: whoever wants to see it gets it on a line.
const maxSchema = message.MaxLine

// maxMistakes is how many mistakes of a schema are told at once.
const maxMistakes = 3

func readSchema(field string, text jsontext.Value) (s *schema.Schema, canonical []byte, err error) {
	if len(text) > maxSchema {
		return nil, nil, invalid(field, "%s: expected at most %d bytes, got %d", field, maxSchema, len(text))
	}
	if s, err = schema.Parse([]byte(text)); err != nil {
		return nil, nil, invalid(field, "%s is not a JSON Schema: %s", field, mistakes(err))
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

// mistakes says where a schema is wrong, and why. The library tells it as a tree, in which
// only the leaves say something.
func mistakes(err error) string {
	broken, ok := errors.AsType[*jsonschema.SchemaValidationError](err)
	if !ok {
		return strings.ReplaceAll(strings.TrimPrefix(err.Error(), "not a JSON Schema: "), "kernos://schema/root", "")
	}
	root, ok := errors.AsType[*jsonschema.ValidationError](broken.Err)
	if !ok {
		return broken.Err.Error()
	}
	english := textmessage.NewPrinter(language.English)
	var all []string
	var visit func(v *jsonschema.ValidationError)
	visit = func(v *jsonschema.ValidationError) {
		for _, cause := range v.Causes {
			visit(cause)
		}
		if len(v.Causes) == 0 {
			at := "/" + strings.Join(v.InstanceLocation, "/")
			all = append(all, fmt.Sprintf("at %s: %s", message.Clip(at, 200), v.ErrorKind.LocalizedString(english)))
		}
	}
	visit(root)
	if len(all) > maxMistakes {
		all = append(all[:maxMistakes], fmt.Sprintf("and %d more", len(all)-maxMistakes))
	}
	return strings.Join(all, "; ")
}
