package schema

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
	"golang.org/x/text/language"
	"golang.org/x/text/message"

	"kernos/internal/nearest"
	"kernos/internal/when"
)

// Invalid is the error of a value that breaks its schema.
type Invalid struct {
	Problems []Problem  // at least one
	nulls    [][]string // the places of members that may not be null
}

// A Problem is one thing that is wrong with a value.
type Problem struct {
	Path      string // the place of the problem, such as items[2].name; "" is the value itself
	Expected  string // the value that is expected there
	Text      string // the whole problem in words
	Predicate string // the text after the name of the value that is wrong; "" if there is none: it is missing, or unknown

	// Schema is what the schema has about the value, and Note the same in a few words, if the value is missing. Both are
	// empty if the schema doesn't describe it.
	Schema json.RawMessage
	Note   string

	rank int      // problems are sorted by rank: missing values first
	at   []string // the location that the schema is asked about; nil for a value that it doesn't have
}

// maxProblems is how many problems are reported at once, and maxExplained how many are put into
// words at all.
const (
	maxProblems  = 20
	maxExplained = 1000
)

func (e *Invalid) Error() string {
	texts := make([]string, 0, maxProblems)
	for i, p := range e.Problems {
		if i == maxProblems {
			texts = append(texts, fmt.Sprintf("and %d more", len(e.Problems)-maxProblems))
			break
		}
		if p.Note != "" {
			p.Text += " (" + p.Note + ")"
		}
		texts = append(texts, p.Text)
	}
	return strings.Join(texts, "; ")
}

// Problems are problems as clients read them.
type Problems []Listed

// Listed is a problem as clients read it.
type Listed struct {
	Field    string          `json:"field"`
	Expected string          `json:"expected,omitempty"`
	Problem  string          `json:"problem"`
	Schema   json.RawMessage `json:"schema,omitempty"`
}

// maxListed is how many bytes the schemas have that are listed with problems.
const maxListed = 4000

// Listed returns the problems that are reported.
func (e *Invalid) Listed() Problems {
	var list Problems
	left := maxListed
	for _, p := range e.Problems[:min(len(e.Problems), maxProblems)] {
		one := Listed{Field: clip(p.Path), Expected: p.Expected, Problem: p.Text}
		if left -= len(p.Schema); left >= 0 {
			one.Schema = p.Schema
		}
		list = append(list, one)
	}
	return list
}

// explain puts the library's error into words.
func (s *Schema) explain(err error, value json.RawMessage) error {
	if invalid, ok := errors.AsType[*Invalid](err); ok {
		return invalid
	}
	v, ok := errors.AsType[*jsonschema.ValidationError](err)
	if !ok {
		return &Invalid{Problems: []Problem{{Text: err.Error()}}}
	}
	instance, err := jsonschema.UnmarshalJSON(bytes.NewReader(value)) // numbers keep their notation
	if err != nil {
		return &Invalid{Problems: []Problem{{Text: "not JSON: " + err.Error()}}}
	}
	left := maxExplained
	x := explainer{instance: instance, full: s.full, secret: s.quiet || s.Sensitive(), left: &left}
	x.add(v)
	slices.SortStableFunc(x.problems, func(a, b Problem) int {
		return cmp.Or(a.rank-b.rank, strings.Compare(a.Path, b.Path))
	})
	for i := range x.problems[:min(len(x.problems), maxProblems)] {
		p := &x.problems[i]
		p.Schema, p.Note = describe(s.JSON(), p.at)
		if p.rank > 0 {
			p.Note = "" // the text names what is expected
		}
	}
	return &Invalid{Problems: x.problems, nulls: x.nulls}
}

type explainer struct {
	instance any
	full     *compiled
	secret   bool // some field of the schema must not be shown
	left     *int // how many errors are still explained, here and beneath
	problems []Problem
	nulls    [][]string // the places of members whose null fits nowhere
}

// add explains v, or what is beneath it.
func (x *explainer) add(v *jsonschema.ValidationError) {
	x.noteNull(v.InstanceLocation)
	switch v.ErrorKind.(type) {
	case *kind.Schema, *kind.Group, *kind.AllOf, *kind.Reference:
		for _, cause := range v.Causes {
			x.add(cause)
		}
		return
	case *kind.AnyOf, *kind.OneOf:
		x.alternatives(v)
		return
	}
	if *x.left > 0 {
		*x.left--
		x.leaf(v)
	}
}

// noteNull notes the place of a problem if a member is there that is null.
func (x *explainer) noteNull(place []string) {
	if len(place) == 0 || x.at(place) != nil {
		return
	}
	if _, ok := x.at(place[:len(place)-1]).(map[string]any); ok {
		x.nulls = append(x.nulls, place)
	}
}

// alternatives explains a value that fits none of several forms.
func (x *explainer) alternatives(v *jsonschema.ValidationError) {
	path := x.path(v.InstanceLocation)
	if names := x.choices(v); names != nil {
		where := ""
		if path != "" {
			where = path + ": "
		}
		if len(v.Causes) == 0 {
			x.problem(path, "one of "+strings.Join(names, ", "), "%sonly one of %s may be given", where, strings.Join(names, ", "))
			return
		}
		x.problem(join(path, names[0]), "a value", "%smissing required field: one of %s", where, strings.Join(names, ", "))
		x.problems[len(x.problems)-1].rank = 0
		return
	}
	for _, ext := range x.part(v).Extensions {
		if t, ok := ext.(timeText); ok {
			x.wants(v, "%s", when.Expected(t.format, t.examples))
			return
		}
	}
	if len(v.Causes) == 0 {
		x.about(path, "exactly one form", " fits more than one of the forms that it may have")
		return
	}
	var forms []string
	for _, cause := range v.Causes {
		inner := explainer{instance: x.instance, full: x.full, secret: x.secret, left: x.left}
		inner.add(cause)
		x.nulls = append(x.nulls, inner.nulls...)
		var wrong []string
		for _, p := range inner.problems[:min(len(inner.problems), maxProblems)] {
			wrong = append(wrong, p.Text)
		}
		if wrong != nil {
			forms = append(forms, strings.Join(wrong, " and "))
		}
	}
	x.about(path, "one of several forms", " fits none of the forms that it may have (%s)", strings.Join(forms, "; or "))
}

func (x *explainer) problem(path, expected, format string, args ...any) {
	x.problems = append(x.problems, Problem{Path: path, Expected: expected, Text: fmt.Sprintf(format, args...), rank: 1})
}

// about is problem for a value that isn't missing.
func (x *explainer) about(path, expected, format string, args ...any) {
	rest := fmt.Sprintf(format, args...)
	x.problems = append(x.problems, Problem{Path: path, Expected: expected, Text: cmp.Or(path, "the value") + rest, Predicate: rest, rank: 1})
}

// wants reports what should be at a path, and which value is.
func (x *explainer) wants(v *jsonschema.ValidationError, format string, args ...any) {
	path := x.path(v.InstanceLocation)
	expected := fmt.Sprintf(format, args...)
	x.about(path, expected, ": expected %s, got %s", expected, x.came(v.InstanceLocation))
}

// unknownFields reports fields that the schema doesn't have, with hints at those that it has.
func (x *explainer) unknownFields(v *jsonschema.ValidationError, path string, unknown []string) {
	slices.Sort(unknown)
	known := slices.Sorted(maps.Keys(x.part(v).Properties))
	here, _ := x.at(v.InstanceLocation).(map[string]any)
	absent := slices.DeleteFunc(slices.Clone(known), func(name string) bool { _, ok := here[name]; return ok })
	for i, name := range unknown {
		hint := ""
		if i < maxProblems { // the others are only counted
			hint = nearest.Hint(name, absent)
		}
		switch {
		case hint != "":
			hint = " (" + hint + ")"
		case len(known) > 0:
			hint = " (it may have " + strings.Join(known, ", ") + ")"
		default:
			hint = " (there are none)"
		}
		x.problem(join(path, name), "no such field", "unknown field: %s%s", join(path, name), hint)
	}
}

// leaf reports a problem that no deeper one explains.
func (x *explainer) leaf(v *jsonschema.ValidationError) {
	path := x.path(v.InstanceLocation)
	switch k := v.ErrorKind.(type) {
	case *notTime:
		x.wants(v, "%s", k.expected)
	case *kind.Required:
		for _, name := range k.Missing {
			x.problem(join(path, name), "a value", "missing required field: %s", join(path, name))
			p := &x.problems[len(x.problems)-1]
			p.rank, p.at = 0, append(slices.Clone(v.InstanceLocation), name)
		}
	case *kind.AdditionalProperties:
		x.unknownFields(v, path, k.Properties)
	default:
		x.wrong(v, path)
		x.problems[len(x.problems)-1].at = v.InstanceLocation
	}
}

// wrong reports a value that isn't as it should be.
func (x *explainer) wrong(v *jsonschema.ValidationError, path string) {
	switch k := v.ErrorKind.(type) {
	case *kind.Type:
		words := make([]string, len(k.Want))
		for i, w := range k.Want {
			words[i] = typeWord(w)
		}
		x.wants(v, "%s", strings.Join(words, " or "))
	case *kind.Enum:
		words := make([]string, len(k.Want))
		for i, w := range k.Want {
			words[i] = show(w)
		}
		x.wants(v, "one of %s", strings.Join(words, ", "))
	case *kind.Const:
		x.wants(v, "%s", show(k.Want))
	case *kind.MinLength:
		if k.Want == 1 {
			x.wants(v, "a string that is not empty")
			break
		}
		x.wants(v, "a string of at least %s", count(k.Want, "character"))
	case *kind.MaxLength:
		x.about(path, "", ": expected a string of at most %s, got %d", count(k.Want, "character"), k.Got)
	case *kind.MinItems:
		x.about(path, "", ": expected at least %s, got %d", count(k.Want, "element"), k.Got)
	case *kind.MaxItems:
		x.about(path, "", ": expected at most %s, got %d", count(k.Want, "element"), k.Got)
	case *kind.Minimum:
		x.wants(v, "a number of at least %s", decimal(k.Want))
	case *kind.Maximum:
		x.wants(v, "a number of at most %s", decimal(k.Want))
	case *kind.ExclusiveMinimum:
		x.wants(v, "a number above %s", decimal(k.Want))
	case *kind.ExclusiveMaximum:
		x.wants(v, "a number below %s", decimal(k.Want))
	case *kind.MultipleOf:
		x.wants(v, "a multiple of %s", decimal(k.Want))
	case *kind.Pattern:
		x.wants(v, "a string that matches %s", k.Want)
	case *kind.Format:
		x.wants(v, "a string in the format %s", k.Want)
	case *kind.UniqueItems:
		x.about(path, "", ": elements %d and %d are equal, and no two may be", k.Duplicates[0], k.Duplicates[1])
	case *kind.MinProperties:
		x.about(path, "", ": expected at least %s, got %d", count(k.Want, "field"), k.Got)
	case *kind.MaxProperties:
		x.about(path, "", ": expected at most %s, got %d", count(k.Want, "field"), k.Got)
	case *kind.DependentRequired:
		x.about(path, "", ": %s must come with %s", k.Prop, strings.Join(k.Missing, " and "))
	case *kind.PropertyNames:
		x.about(path, "", ": no field may be named %q", clip(k.Property))
	case *kind.Contains:
		x.about(path, "", ": none of its elements is as one of them must be")
	case *kind.Not:
		x.wants(v, "anything but what is excluded")
	case *kind.FalseSchema:
		x.about(path, "nothing", ": nothing may be here")
	default:
		text := v.ErrorKind.LocalizedString(message.NewPrinter(language.English))
		x.about(path, "", ": %s", text)
	}
}

// choices lists the fields of which one is required, if the forms of the schema at fault require
// one field each and nothing else; nil if they don't.
func (x *explainer) choices(v *jsonschema.ValidationError) (names []string) {
	part := x.part(v)
	for _, form := range slices.Concat(part.OneOf, part.AnyOf) {
		if len(form.Required) != 1 || form.Types != nil || form.Ref != nil || form.Properties != nil {
			return nil
		}
		names = append(names, form.Required[0])
	}
	return names
}

// part returns the schema at fault, or an empty one.
func (x *explainer) part(v *jsonschema.ValidationError) *jsonschema.Schema {
	for _, part := range x.full.parts {
		if part.Location == v.SchemaURL {
			return part
		}
	}
	return new(jsonschema.Schema)
}

// came describes the value at a location. If the schema has a secret anywhere, it names only
// the kind of the value: a secret must not come back in an error, and it may
// have been put into the wrong field.
func (x *explainer) came(location []string) string {
	v := x.at(location)
	if !x.secret {
		return show(v)
	}
	switch v.(type) {
	case string:
		return "a string"
	case json.Number:
		return "a number"
	case bool:
		return "a boolean"
	}
	return show(v)
}

// at returns the part of the instance that a location names.
func (x *explainer) at(location []string) any {
	v := x.instance
	for _, step := range location {
		switch w := v.(type) {
		case map[string]any:
			v = w[step]
		case []any:
			i, err := strconv.Atoi(step)
			if err != nil || i >= len(w) {
				return nil
			}
			v = w[i]
		}
	}
	return v
}

// path writes a location as a person would: items[2].name.
func (x *explainer) path(location []string) string {
	path := ""
	for i, step := range location {
		if _, ok := x.at(location[:i]).([]any); ok {
			path += "[" + step + "]"
		} else {
			path = join(path, step)
		}
	}
	return path
}

// join adds the name of a member to a path.
func join(path, name string) string {
	name = clip(name)
	if path == "" {
		return name
	}
	return path + "." + name
}

func typeWord(t string) string {
	switch t {
	case "null":
		return "null"
	case "object", "array":
		return "an " + t
	case "integer":
		return "a whole number"
	}
	return "a " + t
}

// show names a value in a few words.
func show(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case map[string]any:
		return "an object"
	case []any:
		return "an array"
	case string:
		if v == "" {
			return "an empty string"
		}
		return strconv.Quote(clip(v))
	case json.Number:
		return "the number " + clip(string(v))
	}
	return fmt.Sprint(v)
}

// decimal writes an exact number as a person would.
func decimal(r *big.Rat) string {
	if r.IsInt() {
		return r.RatString()
	}
	f, _ := r.Float64()
	return strconv.FormatFloat(f, 'g', -1, 64)
}

func clip(s string) string {
	const most = 60
	runes := []rune(s)
	if len(runes) <= most {
		return s
	}
	return string(runes[:most]) + "…"
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
