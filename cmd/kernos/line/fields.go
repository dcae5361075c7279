package line

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"kernos/client"
	"kernos/cmd/kernos/terminal"
	"kernos/internal/jsonvalue"
	"kernos/internal/nearest"
	"kernos/internal/when"
)

// RenamedMethod is the name that the schema of a module gives to a parameter called method,
// because its own member method has the name of the method.
const RenamedMethod = "method_"

// FlagName returns the name that people know a parameter by. Both names are read.
func FlagName(name string) string {
	if name == RenamedMethod {
		return "method"
	}
	return name
}

// FieldNames lists the parameters, and the fields within them, as dotted paths.
func FieldNames(f *client.Field) []string { return fieldNames(f, "") }

func fieldNames(f *client.Field, prefix string) (names []string) {
	for _, inner := range f.Fields {
		names = append(names, prefix+inner.Name)
		names = append(names, fieldNames(inner, prefix+inner.Name+".")...)
	}
	return names
}

// FindField finds a parameter by its dotted path. Words of a name may also be joined by
// hyphens or underscores, in any case.
func FindField(m *client.Method, name string) *client.Field {
	_, f := findField(m, name)
	return f
}

func findField(m *client.Method, name string) (path []string, f *client.Field) {
	if m != nil {
		if path, f := walkFields(&m.Field, name); f != nil {
			return path, f
		}
		if takesAnything(m) {
			return strings.Split(name, "."), new(client.Field)
		}
	}
	return strings.Split(name, "."), nil
}

// declares reports whether a method has a parameter of this name.
func declares(m *client.Method, name string) bool {
	if m == nil {
		return false
	}
	_, f := walkFields(&m.Field, name)
	return f != nil
}

// takesAnything reports whether a method takes parameters of any names: its schema has none.
func takesAnything(m *client.Method) bool {
	return len(m.Fields) == 0 && len(m.Forms) == 0 && !m.Closed && (len(m.Types) == 0 || m.Is("object"))
}

func walkFields(f *client.Field, name string) (path []string, found *client.Field) {
	for _, same := range []func(a, b string) bool{
		func(a, b string) bool { return a == b },
		func(a, b string) bool { return client.Fold(a) == client.Fold(b) },
	} {
		for _, inner := range f.Fields {
			if same(inner.Name, name) {
				return []string{inner.Name}, inner
			}
		}
		for i := range name {
			if name[i] != '.' {
				continue
			}
			for _, inner := range f.Fields {
				if !same(inner.Name, name[:i]) {
					continue
				}
				if rest, found := walkFields(inner, name[i+1:]); found != nil {
					return append([]string{inner.Name}, rest...), found
				}
				if inner.Is("object") && len(inner.Fields) == 0 { // such an object takes any members
					return append([]string{inner.Name}, strings.Split(name[i+1:], ".")...), new(client.Field)
				}
			}
		}
	}
	return nil, nil
}

// meantField returns the parameter that was probably meant by a name that the method doesn't
// have.
func meantField(m *client.Method, name string) (path []string, f *client.Field) {
	near := nearest.Names(name, FieldNames(&m.Field))
	if len(near) == 0 {
		return nil, nil
	}
	return walkFields(&m.Field, near[0])
}

// hint names the parameters that may have been meant.
func hint(m *client.Method, name string) string {
	names := FieldNames(&m.Field)
	for i := range names {
		names[i] = FlagName(names[i])
	}
	if h := nearest.Hint(name, names); h != "" {
		return "; " + h
	}
	if len(names) == 0 {
		return "; " + m.Module + " " + m.Name + " takes none"
	}
	return "; there are " + strings.Join(names, ", ")
}

// Positions returns the parameters that take values without a name, in the order in which the
// help lists them: required ones come first. Parameters with one possible value need none.
func Positions(m *client.Method) []*client.Field {
	var required, optional []*client.Field
	for _, f := range m.Fields {
		switch {
		case len(f.Enum) == 1:
		case f.Required:
			required = append(required, f)
		default:
			optional = append(optional, f)
		}
	}
	return slices.Concat(required, optional)
}

// Positional returns the parameters that words without a name are the values of, in this order: those that the server
// names, or else the only required parameter, or the first of several parameters of which one is required.
func Positional(m *client.Method) (all []*client.Field) {
	if m == nil {
		return nil
	}
	for _, name := range m.Arguments {
		if f := m.Member(name); f != nil {
			all = append(all, f)
		}
	}
	if len(all) > 0 {
		return all
	}
	for _, f := range m.Fields {
		if f.Required && len(f.Enum) != 1 {
			all = append(all, f)
		}
	}
	if len(all) == 0 && len(m.Forms) > 0 && len(m.Forms[0].Needs) == 1 {
		if f := m.Member(m.Forms[0].Needs[0]); f != nil {
			return []*client.Field{f}
		}
	}
	if len(all) > 1 {
		return nil
	}
	return all
}

// stray returns the error of a word in the place of a parameter.
func stray(m *client.Method, word string) error {
	hint := "parameters are written --NAME VALUE, NAME=VALUE, NAME:=JSON or NAME=@FILE"
	if m != nil && len(m.Fields) == 0 && !takesAnything(m) {
		return fmt.Errorf("%s %s takes no parameters, got %q", m.Module, m.Name, word)
	}
	if m != nil {
		if all := slices.DeleteFunc(Positions(m), func(f *client.Field) bool { return slices.Contains(Positional(m), f) }); len(all) > 0 {
			hint = fmt.Sprintf("did you mean --%s %s?", FlagName(all[0].Name), terminal.ShellQuote(word))
			if len(all[0].Types) == 0 && jsonvalue.Kind(word) != "" {
				hint = fmt.Sprintf("did you mean %s:=%s?", all[0].Name, terminal.ShellQuote(word))
			}
		}
	}
	return fmt.Errorf("%q needs the name of a parameter; %s", word, hint)
}

// element describes the elements of a list.
func element(f *client.Field) *client.Field {
	if f.Items == nil {
		return new(client.Field)
	}
	return f.Items
}

// Values returns the only values of a parameter, or of the elements of a list, as people write them.
func Values(f *client.Field) (words []string) {
	enum := f.Enum
	if f.Scalar() == "array" {
		enum = slices.Concat(enum, element(f).Enum)
	}
	for _, v := range enum {
		words = append(words, jsonvalue.Plain(v))
	}
	return words
}

// isWholeList reports whether a text is a list, and not one element of it. Where elements are texts,
// every text is one.
func isWholeList(f *client.Field, text string) bool {
	return jsonvalue.Kind(text) == "array" && !element(f).Is("array") && !takesText(element(f))
}

// takesText reports whether a text is a value of a field as it is.
func takesText(f *client.Field) bool { return len(f.Types) == 0 || f.Is("string") }

// valueWord returns what stands for a value in a usage line; "" for a boolean.
func valueWord(f *client.Field) string {
	switch t := f.Scalar(); {
	case t == "boolean":
		return ""
	case t == "array":
		if word := valueWord(element(f)); word != "" {
			return word + " …"
		}
		return "BOOLEAN …"
	case t == "object":
		return "JSON"
	case f.Format == when.FormatTime:
		return "TIME"
	case f.Format == when.FormatSpan:
		return "DURATION"
	case f.Format != "":
		return strings.ToUpper(f.Format)
	case t == "":
		return "VALUE"
	default:
		return strings.ToUpper(t)
	}
}

// expected names the values of a JSON type in an error.
var expected = map[string]string{
	"integer": "an integer", "number": "a number", "boolean": "true or false", "array": "a JSON list", "object": "a JSON object",
}

// convertValue makes JSON of a text, as a field wants it. A field that takes texts gets the text as it
// is, also if it looks like JSON, which is written NAME:=JSON. Without a field it is a text.
func convertValue(f *client.Field, text string) (json.RawMessage, error) {
	if !utf8.ValidString(text) {
		return nil, errors.New("it isn't UTF-8 text")
	}
	quoted, _ := json.Marshal(text)
	if f == nil {
		return quoted, nil
	}
	for _, one := range f.Enum {
		if string(one) == text || string(one) == string(quoted) {
			return one, nil
		}
	}
	if takesText(f) {
		return quoted, nil
	}
	kind, want := jsonvalue.Kind(text), f.Scalar()
	if kind != "number" && (f.Format == when.FormatTime || f.Format == when.FormatSpan) {
		return milliseconds(f.Format, text)
	}
	switch words := expected[want]; {
	case words != "" && kind != want && !(want == "integer" && kind == "number"):
		return nil, fmt.Errorf("expected %s, got %q", words, terminal.Clip(text, 40))
	case kind == "":
		return nil, fmt.Errorf("expected JSON (%s), got %q", strings.Join(f.Types, ", "), terminal.Clip(text, 40))
	}
	return json.RawMessage(text), nil
}

// milliseconds makes the number of a time or a duration as people write it. A duration in the place of a time is from now on.
func milliseconds(format, text string) (json.RawMessage, error) {
	examples := when.AheadExamples
	if format == when.FormatSpan {
		examples = when.SpanExamples
		if d, ok := when.ParseSpan(text); ok {
			return strconv.AppendInt(nil, d.Milliseconds(), 10), nil
		}
	} else if m, ok := when.Parse(text); ok {
		return strconv.AppendInt(nil, m.Ahead(time.Now()).UnixMilli(), 10), nil
	}
	return nil, fmt.Errorf("expected %s, got %q", when.Expected(format, examples), terminal.Clip(text, 40))
}
