// Package schema is the one place that knows JSON Schema.
//
// A [Schema] is derived from a Go type, or parsed from JSON that came at run time:
//
//	type Input struct {
//		Message string `json:"message" jsonschema_description:"Message to echo back."`
//	}
//	s := schema.Input[Input]()
//	err := s.Validate(json.RawMessage(`{"mesage":"hi"}`))
//	// missing required field: message; unknown field: mesage (did you mean message?)
//
// The derived schema is the contract: it is what callers are shown and what their
// input is held against. Validation proper is the work of a maintained library
// (draft-04 to 2020-12). Beside it stands a compiled form of the plain schemas that
// Go types give, which accepts valid input without building a value; it can
// only accept, and everything else goes to the library, so that there is one source of
// truth and one place where failures are put into words. A differential fuzz test
// shows that the two agree.
package schema

import (
	"encoding/json"
	"fmt"
	"reflect"
	"sync"

	"kernos/internal/jsonscan"
	"kernos/internal/jsonvalue"
)

// A Schema describes JSON values and checks them. It is compiled when it is first
// used, so a program that declares a hundred of them starts no slower. It is safe
// for concurrent use.
type Schema struct {
	source func() (json.RawMessage, error)
	goType reflect.Type // the type that the schema is derived from, or nil
	quiet  bool         // no value is quoted

	readOnce sync.Once
	text     json.RawMessage

	fastOnce sync.Once
	fast     *node // nil if the schema has more than the fast path knows

	fullOnce sync.Once
	full     *compiled
	fullErr  error

	sensitiveOnce sync.Once
	sensitive     bool

	checkers chan *checker // checkers that no call uses; nil for a schema of the program itself
}

// Parse reads a schema from JSON. It may be of any draft from draft-04 to 2020-12
// and is 2020-12 if it names none; it may refer to itself but to nothing outside. Checks
// against it have a limit: one that would take too long fails.
func Parse(text json.RawMessage) (*Schema, error) {
	var scan jsonscan.Scanner
	if err := scan.Text(text); err != nil {
		return nil, broken(err)
	}
	s := written(text)
	if err := s.Check(); err != nil {
		return nil, err
	}
	s.checkers = make(chan *checker, maxCheckers)
	if s.plain() == nil {
		if err := s.affordable(); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// Parsed is Parse for a text that Parse has accepted before: nothing looks at it before it is used.
func Parsed(text json.RawMessage) *Schema {
	s := written(text)
	s.checkers = make(chan *checker, maxCheckers)
	return s
}

// Written is Parse for a text that stands in the program, which is a schema: nothing looks at
// it before it is used, or checked.
func Written(text string) *Schema { return written(json.RawMessage(text)) }

func written(text json.RawMessage) *Schema {
	return &Schema{source: func() (json.RawMessage, error) { return jsonscan.AppendCompact(nil, text), nil }}
}

// Check reports what is wrong with the schema itself, or returns nil.
func (s *Schema) Check() error {
	if err := s.Err(); err != nil {
		return err
	}
	if _, err := s.library(); err != nil {
		return broken(err)
	}
	return nil
}

// Any is the schema of every value.
var Any = &Schema{source: func() (json.RawMessage, error) { return json.RawMessage(`{}`), nil }}

// Quiet makes the schema's errors quote no values: some of them may be secrets, although no
// field is marked as one. It returns the schema, and is called before the first use.
func (s *Schema) Quiet() *Schema {
	s.quiet = true
	return s
}

// Example adds a value to the schema of an object that shows how it is used, where its fields
// can't express that: which of two is wanted, for instance. It returns the schema, and is called
// before the first use.
func (s *Schema) Example(value string) *Schema {
	return s.change(func(keywords jsonvalue.Object) jsonvalue.Object {
		return keywords.Set("examples", json.RawMessage("["+value+"]"))
	})
}

// Items sets what is in the list of a field whose Go type can't express it. It returns the schema, and is called before the
// first use.
func (s *Schema) Items(field, schema string) *Schema {
	return s.change(func(keywords jsonvalue.Object) jsonvalue.Object {
		fields := jsonvalue.Members(keywords.Get("properties"))
		list := jsonvalue.Members(fields.Get(field)).Set("items", json.RawMessage(schema))
		return keywords.Set("properties", fields.Set(field, list.Text()).Text())
	})
}

// Or lets a value also be one of another schema, which is written out and has no
// definitions. It returns the schema, and is called before the first use.
func (s *Schema) Or(text string) *Schema {
	return s.change(func(keywords jsonvalue.Object) jsonvalue.Object {
		definitions := keywords.Get("$defs") // references expect $defs at the top of the schema
		either := jsonvalue.Object{}.Set("oneOf", fmt.Appendf(nil, `[%s,%s]`, text, keywords.Without("$defs").Text()))
		if definitions != nil {
			either = either.Set("$defs", definitions)
		}
		return either
	})
}

func (s *Schema) change(f func(keywords jsonvalue.Object) jsonvalue.Object) *Schema {
	source := s.source
	s.source = func() (json.RawMessage, error) {
		text, err := source()
		if err != nil {
			return nil, err
		}
		return arrange(f(jsonvalue.Members(text)).Text()), nil
	}
	return s
}

// Err reports why a Go type has no schema, or returns nil.
func (s *Schema) Err() error {
	if s.goType == nil {
		return nil
	}
	return fit(s.goType)
}

// JSON returns the schema itself. It panics if Err is not nil.
func (s *Schema) JSON() json.RawMessage {
	s.readOnce.Do(func() {
		text, err := s.source()
		if err != nil {
			panic(err)
		}
		s.text = text
	})
	return s.text
}

// library returns the library's form of the schema, which is not needed before the
// first value that the fast path does not accept.
func (s *Schema) library() (*compiled, error) {
	s.fullOnce.Do(func() { s.full, s.fullErr = compile(s.JSON()) })
	return s.full, s.fullErr
}

// Validate checks a value, which must be valid JSON without repeated names. The
// error is an *Invalid.
func (s *Schema) Validate(value json.RawMessage) error {
	if fast := s.plain(); fast != nil && fast.accepts(value) {
		return nil
	}
	return s.validateFully(value)
}

// plain returns the form for the fast path, or nil if the schema is not a plain one.
func (s *Schema) plain() *node {
	s.fastOnce.Do(func() {
		p := plain{root: s.JSON()}
		s.fast = p.node(p.root)
	})
	return s.fast
}

// validateFully is Validate without the fast path.
func (s *Schema) validateFully(value json.RawMessage) error {
	full, err := s.library()
	if err != nil {
		return &Invalid{Problems: []Problem{{Text: "the schema itself is broken: " + err.Error()}}}
	}
	instance, err := parseInstance(value)
	if err != nil {
		return &Invalid{Problems: []Problem{{Text: "not JSON: " + err.Error()}}}
	}
	if err := s.check(full, instance, len(value)); err != nil {
		return s.explain(err, value)
	}
	return nil
}

// check asks the library, within limits if the schema came from outside.
func (s *Schema) check(full *compiled, instance any, bytes int) error {
	if s.checkers == nil {
		return full.root.Validate(instance)
	}
	k, err := s.checker()
	if err != nil {
		return err
	}
	defer s.release(k)
	return k.check(instance, bytes)
}
