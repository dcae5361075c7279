package schema

import (
	"encoding/json"
	"strings"

	"kernos/internal/jsonvalue"
)

// Limits of what an error has of a field's schema.
const (
	maxFieldSchema = 1000 // bytes; of a larger schema, only its type and its description
	maxFieldNote   = 160  // bytes
	maxFieldSteps  = 200  // parts of the schema that are looked at
)

// describe returns what a schema has about the value at a location of its instances, and the same in a few words: the
// type, and the first sentence of the description. The value as a whole has no description here.
func describe(root json.RawMessage, location []string) (json.RawMessage, string) {
	if len(location) == 0 {
		return nil, ""
	}
	w := walker{exampler: exampler{root: root}, left: maxFieldSteps}
	field := w.find(root, location)
	if len(field) == 0 || field[0] != '{' {
		return nil, ""
	}
	all := w.whole(field)
	text, _ := jsonvalue.String(all.Get("description"))
	note := sentence(text)
	if word, ok := jsonvalue.String(all.Get("type")); ok && note != "" {
		note = typeWord(word) + ": " + note
	}
	short := all.Text()
	if len(short) > maxFieldSchema {
		short = nil
		var few jsonvalue.Object
		for _, name := range []string{"type", "description"} {
			if value := all.Get(name); value != nil && len(value) < maxFieldSchema/2 {
				few = few.Set(name, value)
			}
		}
		if len(few) > 0 {
			short = few.Text()
		}
	}
	return short, note
}

// sentence returns the first sentence of a text, without its full stop.
func sentence(text string) string {
	text, _, _ = strings.Cut(text, "\n")
	if end := strings.Index(text, ". "); end >= 0 {
		text = text[:end]
	}
	text = strings.TrimSuffix(text, ".")
	if len(text) > maxFieldNote {
		text = strings.ToValidUTF8(text[:maxFieldNote], "") + "…"
	}
	return text
}

// walker finds the part of a schema that is about a part of its instances. A schema that came from outside may refer to
// itself, so the steps are counted.
type walker struct {
	exampler
	left int
}

// whole returns the keywords of a schema, with those of the schema that it refers to.
func (w *walker) whole(text json.RawMessage) jsonvalue.Object {
	all := jsonvalue.Members(text)
	for w.left > 0 {
		ref, ok := jsonvalue.String(all.Get("$ref"))
		if !ok {
			break
		}
		w.left--
		own := all.Without("$ref")
		all = jsonvalue.Members(w.resolve(ref))
		for _, m := range own {
			all = all.Set(m.Name, m.Value)
		}
	}
	return all
}

// find returns the schema of the value at a location below a value that has the schema text, or nil.
func (w *walker) find(text json.RawMessage, location []string) json.RawMessage {
	if len(location) == 0 {
		return text
	}
	if w.left--; w.left < 0 {
		return nil
	}
	all := w.whole(text)
	step, rest := location[0], location[1:]
	if named := jsonvalue.Members(all.Get("properties")).Get(step); named != nil {
		return w.find(named, rest)
	}
	for _, keyword := range []string{"items", "additionalProperties"} {
		if each := all.Get(keyword); len(each) > 0 && each[0] == '{' {
			return w.find(each, rest)
		}
	}
	for _, keyword := range []string{"allOf", "anyOf", "oneOf"} {
		for _, form := range jsonvalue.Elements(all.Get(keyword)) {
			if found := w.find(form, location); found != nil {
				return found
			}
		}
	}
	return nil
}
