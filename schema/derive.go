package schema

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/invopop/jsonschema"

	"kernos/internal/when"
)

// Input returns the schema of a Go type that callers fill in. Fields are named by
// their json tags and required unless the tag has omitempty or omitzero; the tag
// jsonschema_description describes them, the tag jsonschema restricts them
// (enum=…, minimum=…, maxLength=…, oneof_required=NAME with another NAME for each of several
// fields of which exactly one must be there, writeOnly=true for a secret text; jsonschema_extras has
// writeOnly=true for other secrets). Integers get the bounds that their Go type, or
// a JSON number in any language, can hold, so that what the schema accepts can be
// decoded. Types that are [Shared] become definitions.
func Input[T any]() *Schema { return derived(reflect.TypeFor[T](), true) }

// Output returns the schema of a Go type that a syscall fills in.
func Output[T any]() *Schema { return derived(reflect.TypeFor[T](), false) }

func derived(t reflect.Type, bounded bool) *Schema {
	return &Schema{goType: t, source: func() (json.RawMessage, error) { return derive(t, bounded) }}
}

func derive(t reflect.Type, bounded bool) (json.RawMessage, error) {
	if err := fit(t); err != nil {
		return nil, err
	}
	d := derivation{bounded: bounded, types: make(map[string]reflect.Type), definitions: make(jsonschema.Definitions)}
	s := d.schema(t)
	s.Definitions = d.definitions
	text, err := json.Marshal(s)
	if err != nil {
		return nil, fmt.Errorf("schema of %v: %w", t, err)
	}
	return arrange(text), nil
}

// Shared is what a Go type may be whose values stand in many places. A schema has it once,
// among its definitions, and refers to it from wherever it stands within others; all
// schemas together need to show it once only.
type Shared interface {
	// SchemaName is the name of the definition: letters and digits. It does not depend on
	// the value.
	SchemaName() string
}

// derivation derives one schema, and the definitions that it refers to.
type derivation struct {
	bounded     bool
	types       map[string]reflect.Type // the Go types of the definitions, by name
	definitions jsonschema.Definitions
}

// schema returns the schema of a type, written out, with references to shared types in it.
func (d *derivation) schema(t reflect.Type) *jsonschema.Schema {
	itself := t
	if t.Kind() == reflect.Pointer {
		itself = t.Elem()
	}
	r := jsonschema.Reflector{
		Anonymous:      true,
		DoNotReference: true,
		ExpandedStruct: t.Kind() == reflect.Struct,
		Mapper: func(t reflect.Type) *jsonschema.Schema {
			if t == reflect.TypeFor[json.RawMessage]() || t == reflect.TypeFor[jsontext.Value]() {
				return &jsonschema.Schema{}
			}
			if t != itself && t.Implements(reflect.TypeFor[Shared]()) {
				return d.reference(t)
			}
			if s := d.ofTime(t); s != nil {
				return s
			}
			if d.bounded {
				return integer(t)
			}
			return nil
		},
	}
	s := r.ReflectFromType(t)
	s.Version = ""
	orText(s)
	if s.Properties != nil {
		for field := s.Properties.Oldest(); field != nil; field = field.Next() {
			listed(field.Value.OneOf)
		}
	}
	return s
}

// listed reports what is in the list of a field that takes one value or a list of such values (oneof_type=string;array):
// some clients of models refuse a list without it.
func listed(forms []*jsonschema.Schema) {
	if len(forms) == 2 && forms[1].Type == "array" && forms[1].Items == nil {
		forms[1].Items = &jsonschema.Schema{Type: forms[0].Type}
	}
}

// reference returns a reference to a shared type, and makes sure that it is defined.
func (d *derivation) reference(t reflect.Type) *jsonschema.Schema {
	name := reflect.Zero(t).Interface().(Shared).SchemaName()
	switch other, defined := d.types[name]; {
	case !defined:
		d.types[name] = t
		d.definitions[name] = d.schema(t)
	case other != t:
		panic(fmt.Sprintf("%v and %v are both defined as %s; give one of them another SchemaName", other, t, name))
	}
	return &jsonschema.Schema{Ref: definitionPrefix + name}
}

// timed are the types of times and lengths of time.
var timed = map[reflect.Type]struct {
	format   string
	most     int64
	examples [3]string
}{
	reflect.TypeFor[when.Ahead](): {when.FormatTime, when.MaxTime, when.AheadExamples},
	reflect.TypeFor[when.Back]():  {when.FormatTime, when.MaxTime, when.BackExamples},
	reflect.TypeFor[when.Span]():  {when.FormatSpan, when.MaxSpan, when.SpanExamples},
}

// ofTime returns the schema of a type of package when, or nil for other types. Callers may write the number as a text.
func (d *derivation) ofTime(t reflect.Type) *jsonschema.Schema {
	of, ok := timed[t]
	if !ok {
		return nil
	}
	s := &jsonschema.Schema{Type: "integer", Format: of.format}
	if d.bounded {
		s.Type = "number"
		s.Minimum, s.Maximum = "0", json.Number(fmt.Sprint(of.most))
		s.Examples = []any{of.examples[0], of.examples[1], of.examples[2]}
	}
	return s
}

// orText lets the numbers of [derivation.ofTime] also be texts. It comes after the tags, which know the bounds of numbers only.
func orText(s *jsonschema.Schema) {
	if s == nil {
		return
	}
	if s.Examples != nil && s.Type == "number" && (s.Format == when.FormatTime || s.Format == when.FormatSpan) {
		s.Type, s.OneOf = "", []*jsonschema.Schema{{Type: "number"}, {Type: "string"}}
	}
	if s.Properties != nil {
		for field := s.Properties.Oldest(); field != nil; field = field.Next() {
			orText(field.Value)
		}
	}
	orText(s.Items)
	orText(s.AdditionalProperties)
}

// safe is the largest integer that every JSON implementation reads exactly.
const safe = 1<<53 - 1

func integer(t reflect.Type) *jsonschema.Schema {
	var low, high int64
	switch t.Kind() {
	case reflect.Int, reflect.Int64:
		low, high = -safe, safe
	case reflect.Int32, reflect.Int16, reflect.Int8:
		high = 1<<(t.Bits()-1) - 1
		low = -high - 1
	case reflect.Uint, reflect.Uint64:
		high = safe
	case reflect.Uint32, reflect.Uint16, reflect.Uint8:
		high = 1<<t.Bits() - 1
	default:
		return nil
	}
	number := func(n int64) json.Number { return json.Number(fmt.Sprint(n)) }
	return &jsonschema.Schema{Type: "integer", Minimum: number(low), Maximum: number(high)}
}

// fit returns the reason why a type has no schema, or nil.
func fit(t reflect.Type) error {
	if why := unfit(t, nil); why != "" {
		return fmt.Errorf("no schema for %v: %s", t, why)
	}
	return nil
}

// unfit reports why a type has no schema, or returns "". Only fields that are on the wire
// count. A kernel asks about all its types when it starts; reading tags would take most of the time, and few tags have
// what is looked for.
func unfit(t reflect.Type, outer []reflect.Type) string {
	switch t.Kind() {
	case reflect.Int64:
		if t == reflect.TypeFor[time.Duration]() {
			return "a time.Duration has no form in JSON; use a number of milliseconds"
		}
		return ""
	case reflect.Chan, reflect.Func, reflect.Complex64, reflect.Complex128, reflect.UnsafePointer, reflect.Uintptr:
		return fmt.Sprintf("a %v has no form in JSON", t)
	case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map, reflect.Struct:
		if slices.Contains(outer, t) {
			return fmt.Sprintf("the type %v contains itself", t)
		}
		outer = append(outer, t)
	default:
		return ""
	}
	if t.Kind() != reflect.Struct {
		return unfit(t.Elem(), outer)
	}
	if t == reflect.TypeFor[time.Time]() {
		return ""
	}
	for f := range t.Fields() {
		tag := string(f.Tag)
		if !f.IsExported() && !f.Anonymous || strings.Contains(tag, `:"-"`) && (f.Tag.Get("json") == "-" || f.Tag.Get("jsonschema") == "-") {
			continue
		}
		if strings.Contains(tag, "writeOnly") && strings.Contains(f.Tag.Get("jsonschema"), "writeOnly") && !isText(f.Type) {
			return fmt.Sprintf(`the tag jsonschema marks only text as writeOnly; mark %s with jsonschema_extras:"writeOnly=true"`, f.Name)
		}
		if why := unfit(f.Type, outer); why != "" {
			return why
		}
	}
	return ""
}

// isText reports whether the values of a type are strings in JSON, as far as the library knows.
func isText(t reflect.Type) bool {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t.Kind() == reflect.String || t == reflect.TypeFor[time.Time]()
}
