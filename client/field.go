package client

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"kernos/internal/jsonvalue"
	"kernos/internal/secret"
)

// A Field is one parameter of a method, or a member of one, with its references resolved:
// all that a flag, a form or a help text needs to know. What else a schema has is
// checked by [Method.Validate].
type Field struct {
	Name        string
	Description string
	Required    bool
	Types       []string          // names of JSON Schema; empty if any value will do
	Format      string            // of a text as JSON Schema has it; [when.FormatTime] or [when.FormatSpan] of a number; [FormatWord]
	Enum        []json.RawMessage // the only values, if there are any; a const is one
	Default     json.RawMessage   // nil if there is none
	Sensitive   bool              // the value must not be shown or kept

	Minimum, Maximum *float64

	Fields []*Field // fields of an object, in the order of the schema
	Closed bool     // an object has no members but its fields
	Items  *Field   // elements of an array; nil if they may be anything
	Forms  []*Field // the value has one of these forms, if there are any

	// Needs are the members that an object must have. A form may need some that the object
	// around it has among its fields.
	Needs []string
}

// FormatWord is the format of a text that people write in lists with commas.
const FormatWord = "word"

// Is reports whether a value of this JSON type may stand here.
func (f *Field) Is(jsonType string) bool { return slices.Contains(f.Types, jsonType) }

// Scalar returns the one JSON type that a value has, null aside, or "".
func (f *Field) Scalar() string {
	only := ""
	for _, t := range f.Types {
		switch {
		case t == "null":
		case only != "":
			return ""
		default:
			only = t
		}
	}
	return only
}

// Member returns the member of an object with this name, or nil.
func (f *Field) Member(name string) *Field {
	for _, inner := range f.Fields {
		if inner.Name == name {
			return inner
		}
	}
	return nil
}

// Find returns the field with this dotted path, or nil.
func (f *Field) Find(path string) *Field {
	for _, inner := range f.Fields {
		if inner.Name == path {
			return inner
		}
		if rest, ok := strings.CutPrefix(path, inner.Name+"."); ok {
			if found := inner.Find(rest); found != nil {
				return found
			}
		}
	}
	return nil
}

// How deep fields are resolved, and how many. Those beyond take any value, and the schema
// still checks them.
const (
	maxDepth  = 12
	maxFields = 10_000
)

// A resolver makes fields of the schemas in a document.
type resolver struct {
	document json.RawMessage
	open     []string // references that are being resolved: a schema may contain itself
	made     int      // fields so far
}

// ReadField makes a field of a schema that stands alone.
func ReadField(schema json.RawMessage) *Field {
	return (&resolver{document: schema}).field("", schema, 0)
}

// field makes a field of a schema. It never fails: what can't be understood may be
// anything.
func (r *resolver) field(name string, text json.RawMessage, depth int) *Field {
	f := &Field{Name: name}
	r.fill(f, text, depth)
	return f
}

func (r *resolver) fill(f *Field, text json.RawMessage, depth int) {
	o := jsonvalue.Members(text)
	if r.made++; o == nil || depth > maxDepth || r.made > maxFields {
		return
	}
	var ref string
	if o.Read("$ref", &ref) && !slices.Contains(r.open, ref) {
		if target := r.find(ref); target != nil {
			r.open = append(r.open, ref)
			r.fill(f, target, depth+1)
			r.open = r.open[:len(r.open)-1]
		}
	}
	var parts []json.RawMessage
	if o.Read("allOf", &parts) {
		for _, p := range parts {
			r.fill(f, p, depth+1)
		}
	}
	r.describe(f, o)
	r.object(f, o, depth)
	if items := o.Get("items"); items != nil {
		f.Items = r.field("", items, depth+1)
	}
	for _, keyword := range []string{"oneOf", "anyOf"} {
		var forms []json.RawMessage
		if !o.Read(keyword, &forms) {
			continue
		}
		for _, form := range forms {
			f.Forms = append(f.Forms, r.field("", form, depth+1))
		}
	}
	if len(f.Types) == 0 && !slices.ContainsFunc(f.Forms, func(form *Field) bool { return len(form.Types) == 0 }) {
		for _, form := range f.Forms {
			for _, t := range form.Types {
				if !f.Is(t) {
					f.Types = append(f.Types, t)
				}
			}
		}
	}
}

// describe reads what a schema states about the value itself.
func (r *resolver) describe(f *Field, o jsonvalue.Object) {
	var one string
	if o.Read("type", &one) {
		f.Types = []string{one}
	} else {
		o.Read("type", &f.Types)
	}
	o.Read("description", &f.Description)
	o.Read("format", &f.Format)
	o.Read("enum", &f.Enum)
	o.Read("minimum", &f.Minimum)
	o.Read("maximum", &f.Maximum)
	if v := o.Get("default"); v != nil {
		f.Default = v
	}
	if v := o.Get("const"); v != nil {
		f.Enum = []json.RawMessage{v}
	}
	var writeOnly bool
	o.Read("writeOnly", &writeOnly)
	f.Sensitive = f.Sensitive || secret.Marked(writeOnly, f.Format)
}

// object reads the members of an object.
func (r *resolver) object(f *Field, o jsonvalue.Object, depth int) {
	for _, p := range jsonvalue.Members(o.Get("properties")) {
		inner := r.field(p.Name, p.Value, depth+1)
		f.Fields = slices.DeleteFunc(f.Fields, func(old *Field) bool { return old.Name == p.Name })
		f.Fields = append(f.Fields, inner)
	}
	if string(o.Get("additionalProperties")) == "false" {
		f.Closed = true
	}
	var required []string
	if o.Read("required", &required) {
		f.Needs = append(f.Needs, required...)
	}
	for _, inner := range f.Fields {
		if slices.Contains(required, inner.Name) {
			inner.Required = true
		}
	}
	if len(f.Types) == 0 && len(f.Fields) > 0 {
		f.Types = []string{"object"}
	}
}

// find returns the schema that a reference within the document means, or nil.
func (r *resolver) find(ref string) json.RawMessage {
	path, ok := strings.CutPrefix(ref, "#")
	if !ok {
		return nil
	}
	at := r.document
	for i, step := range strings.Split(path, "/") {
		if i == 0 {
			if step != "" {
				return nil // a name, which only the schema itself understands
			}
			continue
		}
		step = strings.ReplaceAll(strings.ReplaceAll(step, "~1", "/"), "~0", "~")
		if o := jsonvalue.Members(at); o != nil {
			at = o.Get(step)
			continue
		}
		list := jsonvalue.Elements(at)
		index, err := strconv.ParseUint(step, 10, 31)
		if err != nil || int(index) >= len(list) {
			return nil
		}
		at = list[index]
	}
	return at
}
