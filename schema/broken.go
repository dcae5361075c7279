package schema

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"golang.org/x/text/language"
	"golang.org/x/text/message"
)

// Limits of the report on a broken schema.
const (
	maxMistakes = 3
	maxPlace    = 200 // bytes
)

// broken returns the error for a text that isn't a schema.
func broken(err error) error { return fmt.Errorf("not a JSON Schema: %s", mistakes(err)) }

// mistakes describes where a schema is wrong, and why. The library returns a tree of errors, in which
// only the leaves describe a mistake.
func mistakes(err error) string {
	invalid, ok := errors.AsType[*jsonschema.SchemaValidationError](err)
	if !ok {
		return strings.ReplaceAll(err.Error(), root, "")
	}
	tree, ok := errors.AsType[*jsonschema.ValidationError](invalid.Err)
	if !ok {
		return invalid.Err.Error()
	}
	english := message.NewPrinter(language.English)
	var all []string
	var visit func(v *jsonschema.ValidationError)
	visit = func(v *jsonschema.ValidationError) {
		for _, cause := range v.Causes {
			visit(cause)
		}
		if len(v.Causes) == 0 {
			at := "/" + strings.Join(v.InstanceLocation, "/")
			if len(at) > maxPlace {
				at = strings.ToValidUTF8(at[:maxPlace], "") + "…"
			}
			text := fmt.Sprintf("at %s: %s", at, v.ErrorKind.LocalizedString(english))
			if !slices.Contains(all, text) { // several vocabularies find the same
				all = append(all, text)
			}
		}
	}
	visit(tree)
	if len(all) > maxMistakes {
		all = append(all[:maxMistakes], fmt.Sprintf("and %d more", len(all)-maxMistakes))
	}
	return strings.Join(all, "; ")
}
