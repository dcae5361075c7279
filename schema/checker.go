package schema

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// A schema that came from outside may be small and still take for ever: two references to
// the same part, each with two references, and so on, double the work with each level. The
// library knows no limit, so it is counted what it does.
const (
	leastSteps   = 50_000 // steps for the smallest value
	stepsPerByte = 8      // more for a larger one; four forms for each number of a list take five
	maxChecking  = 5 * time.Second

	// maxCheckers is how many checkers of a schema are kept while no call needs them.
	maxCheckers = 4
)

// checker is the library's form of a schema that came from outside, for one value at a time.
type checker struct {
	schema *jsonschema.Schema
	left   int       // remaining steps
	until  time.Time // the check fails at this time, however few steps it has taken
}

var errTooMuch = errors.New("checking takes too long")

// newChecker compiles a schema, of which it is known that it is one.
func newChecker(text json.RawMessage) (*checker, error) {
	full, err := compile(text)
	if err != nil {
		return nil, err
	}
	k := &checker{schema: full.root}
	for _, part := range full.parts {
		k.count(part)
	}
	return k, nil
}

// count makes checks of a part of the schema cost what they are about to cause. The format
// is the first thing that the library checks, before other parts; an error there keeps it from
// checking those.
func (k *checker) count(part *jsonschema.Schema) {
	// For the same value, and for each member or element of it: those that are named, or all
	// that are not, and those that match a pattern.
	same, below := len(inPlaceSubschemas(part)), 1+len(part.PatternProperties)
	for _, each := range []*jsonschema.Schema{part.PropertyNames, part.Contains, part.UnevaluatedProperties, part.UnevaluatedItems} {
		if each != nil {
			below++
		}
	}
	own := part.Format
	part.Format = &jsonschema.Format{Validate: func(v any) error {
		k.left -= 1 + same + below*size(v)
		if k.left < 0 || time.Now().After(k.until) {
			k.left = -1
			return errTooMuch
		}
		if own != nil {
			return own.Validate(v)
		}
		return nil
	}}
	if own != nil {
		part.Format.Name = own.Name
	}
}

// size returns how many members or elements a value has.
func size(v any) int {
	switch v := v.(type) {
	case map[string]any:
		return len(v)
	case []any:
		return len(v)
	}
	return 0
}

// check checks a value whose text has the given number of bytes. The error is the library's, or a
// *Invalid if it can't be decided whether the value is valid.
func (k *checker) check(instance any, bytes int) error {
	steps := leastSteps + stepsPerByte*bytes
	k.left, k.until = steps, time.Now().Add(maxChecking)
	err := k.schema.Validate(instance)
	if k.left < 0 {
		return &Invalid{Problems: []Problem{{Text: fmt.Sprintf("the value can't be checked: that takes more than %d steps or %v; "+
			"the schema must be simpler (parts that refer to others more than once, by $ref, allOf, anyOf or oneOf, multiply the work)", steps, maxChecking)}}}
	}
	return err
}

// checker returns a checker that no other call uses. It is given back with release.
func (s *Schema) checker() (*checker, error) {
	select {
	case k := <-s.checkers:
		return k, nil
	default:
		return newChecker(s.JSON())
	}
}

func (s *Schema) release(k *checker) {
	select {
	case s.checkers <- k:
	default: // enough checkers are kept
	}
}

// samples are the smallest values of each type.
var samples = []any{nil, false, json.Number("0"), "", []any{}, map[string]any{}}

// affordable reports why no value can be checked against the schema, or nil. What depends on
// the value shows when there is one.
func (s *Schema) affordable() error {
	k, err := s.checker()
	if err != nil {
		return broken(err)
	}
	defer s.release(k)
	for _, v := range samples {
		if invalid, ok := errors.AsType[*Invalid](k.check(v, 0)); ok {
			return fmt.Errorf("too complex: even for an empty value, %v", invalid)
		}
	}
	return nil
}
