package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"kernos/client"
	"kernos/cmd/kernos/terminal"
	"kernos/internal/jsonvalue"
	"kernos/internal/nearest"
)

// A paramReader makes the parameters of a call from the command line.
type paramReader struct {
	method *client.Method // nil if its schema is not known: then every value is a string, or raw JSON
	flags  *callFlags
	stdin  io.Reader
	read   bool // of standard input, which can be read once

	root    map[string]any // of json.RawMessage, map[string]any and []json.RawMessage
	touched map[string]bool
	words   []string // that stand where nothing should
	values  []string // behind --
	problem error    // an *invalidParams: the first thing that is wrong
}

// An invalidParams is the error of a value that its parameter can't have.
type invalidParams struct{ reason string }

func (e *invalidParams) Error() string { return e.reason }

// parameters reads the tokens of a command line. Flags of kernos call among them go to
// flags. The result is one JSON object, or what --data says. If the error is an
// *invalidParams, it is what could be made of the rest.
func parameters(m *client.Method, flags *callFlags, tokens []string, stdin io.Reader) (json.RawMessage, error) {
	p := &paramReader{method: m, flags: flags, stdin: stdin, root: make(map[string]any), touched: make(map[string]bool)}
	var assignments []func() error
	for len(tokens) > 0 {
		rest, assign, err := p.token(tokens)
		if err != nil {
			return nil, err
		}
		if assign != nil {
			assignments = append(assignments, assign)
		}
		tokens = rest
	}
	if len(p.words) > 0 {
		return nil, p.stray(p.words[0])
	}
	if err := flags.check(); err != nil {
		return nil, err
	}
	whole, err := p.data()
	if err = p.excuse(err); err != nil {
		return nil, err
	}
	if whole != nil && len(assignments) == 0 && len(p.values) == 0 {
		return whole, p.problem
	}
	if whole != nil {
		var base map[string]json.RawMessage
		if json.Unmarshal(whole, &base) != nil || base == nil {
			return nil, &invalidParams{"--data is no JSON object, so no other parameters can be added to it"}
		}
		for name, value := range base {
			p.root[name] = value
		}
	}
	for _, assign := range append(assignments, p.place) { // over --data, wherever that stands
		if err := p.excuse(assign()); err != nil {
			return nil, err
		}
	}
	params, err := json.Marshal(p.root)
	if err != nil {
		return nil, err
	}
	return params, p.problem
}

// excuse takes note of what is wrong with a parameter, so that the others can still be read.
// Other errors it returns.
func (p *paramReader) excuse(err error) error {
	if _, ok := errors.AsType[*invalidParams](err); !ok {
		return err
	}
	if p.problem == nil {
		p.problem = err
	}
	return nil
}

// token reads one parameter or flag, and returns what is behind it.
func (p *paramReader) token(tokens []string) (rest []string, assign func() error, err error) {
	token := tokens[0]
	rest = tokens[1:]
	switch {
	case token == "--":
		p.values = rest
		return nil, nil, nil
	case !isFlag(token):
		return rest, p.pair(token), nil
	case findsOwn(token):
		rest, err = p.flags.take(tokens)
		return rest, nil, err
	case !strings.HasPrefix(token, "--"):
		return nil, nil, fmt.Errorf("there is no flag %s; parameters are written --NAME VALUE", token)
	}
	name, value, hasValue := strings.Cut(token[2:], "=")
	path, f := p.find(name)
	if f == nil && p.method != nil {
		if plain, ok := strings.CutPrefix(name, "no-"); ok && !hasValue {
			if path, f := p.find(plain); f != nil && f.Scalar() == "boolean" {
				return rest, func() error { return p.set(path, json.RawMessage("false")) }, nil
			}
		}
		_ = p.excuse(&invalidParams{fmt.Sprintf("there is no parameter %s%s", name, p.hint(name))})
		if path, f = p.meant(name); f == nil {
			if !hasValue && len(rest) > 0 && !isFlag(rest[0]) {
				rest = rest[1:] // it was its value, or so it seems
			}
			return rest, nil, nil
		}
	}
	switch {
	case hasValue:
	case f != nil && f.Scalar() == "boolean", f == nil && (len(rest) == 0 || isFlag(rest[0])):
		value = "true"
		if f == nil {
			return rest, func() error { return p.set(path, json.RawMessage(value)) }, nil
		}
	case len(rest) == 0:
		return nil, nil, fmt.Errorf("--%s needs a value", name)
	case rest[0] == "--" || findsOwn(rest[0]):
		return nil, nil, fmt.Errorf("--%s needs a value; if that is %s, write --%s=%s", name, rest[0], name, rest[0])
	default:
		value, rest = rest[0], rest[1:]
	}
	return rest, func() error { return p.convert(path, f, name, value) }, nil
}

func findsOwn(token string) bool {
	own, _, _ := findOwn(token)
	return own != nil
}

// pair reads NAME=VALUE, NAME:=JSON, NAME=@FILE or NAME:=@FILE.
func (p *paramReader) pair(token string) func() error {
	name, value, ok := strings.Cut(token, "=")
	if !ok || name == "" || name == ":" {
		p.words = append(p.words, token)
		return nil
	}
	name, raw := strings.CutSuffix(name, ":")
	path, f := p.find(name)
	return func() error {
		if file, ok := strings.CutPrefix(value, "@"); ok {
			text, err := p.file(file)
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			value = text
			if f != nil && len(f.Types) > 0 && !f.Is("string") {
				value = strings.TrimSpace(value)
			}
		}
		if !raw {
			return p.convert(path, f, name, value)
		}
		if !json.Valid([]byte(value)) && f != nil && f.Sensitive {
			return &invalidParams{fmt.Sprintf("%s: the value is not JSON; for a text write %s=…", name, name)}
		}
		if !json.Valid([]byte(value)) {
			return &invalidParams{fmt.Sprintf("%s: %s is not JSON; for a text write %s=…", name, terminal.Clip(value, 40), name)}
		}
		return p.set(path, json.RawMessage(value))
	}
}

// file reads a file, or standard input for "-".
func (p *paramReader) file(name string) (string, error) {
	if name != "-" {
		text, err := os.ReadFile(name)
		return string(text), err
	}
	if p.read {
		return "", errors.New("standard input can be read once only")
	}
	p.read = true
	text, err := io.ReadAll(p.stdin)
	return string(text), err
}

// data returns what --data says, or nil.
func (p *paramReader) data() (json.RawMessage, error) {
	if !p.flags.given["data"] {
		return nil, nil
	}
	text := p.flags.data
	if file, ok := strings.CutPrefix(text, "@"); ok || text == "-" {
		if !ok {
			file = "-"
		}
		var err error
		if text, err = p.file(file); err != nil {
			return nil, fmt.Errorf("--data: %w", err)
		}
	}
	if strings.TrimSpace(text) == "" {
		return nil, &invalidParams{"--data is empty; write {} for no parameters"}
	}
	shown := terminal.Clip(strings.TrimSpace(text), 60)
	if p.method != nil && secretive(&p.method.Field) {
		shown = "what was given (it may hold a secret, and is not shown)"
	}
	if !json.Valid([]byte(text)) {
		return nil, &invalidParams{"--data is not JSON: " + shown}
	}
	if p.method != nil && jsonvalue.Kind(text) != "object" {
		return nil, &invalidParams{"--data must be one JSON object with the parameters as its members, such as {\"name\": …}; got " + shown}
	}
	return json.RawMessage(bytes.TrimSpace([]byte(text))), nil
}

// secretive reports whether a field is a secret, or has one.
func secretive(f *client.Field) bool {
	return f.Sensitive || slices.ContainsFunc(f.Fields, secretive)
}

// find finds a parameter by its name, whose words may also be joined by hyphens.
func (p *paramReader) find(name string) (path []string, f *client.Field) {
	if p.method != nil {
		if path, f := walkFields(&p.method.Field, name); f != nil {
			return path, f
		}
	}
	return strings.Split(name, "."), nil
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
				if inner.Is("object") && len(inner.Fields) == 0 { // it takes what it is given
					return append([]string{inner.Name}, strings.Split(name[i+1:], ".")...), new(client.Field)
				}
			}
		}
	}
	return nil, nil
}

// meant returns the parameter that somebody probably meant who has written another name.
func (p *paramReader) meant(name string) (path []string, f *client.Field) {
	near := nearest.Names(name, fieldNames(&p.method.Field, ""))
	if len(near) == 0 {
		return nil, nil
	}
	return walkFields(&p.method.Field, near[0])
}

// hint says which parameter may have been meant.
func (p *paramReader) hint(name string) string {
	names := fieldNames(&p.method.Field, "")
	for i := range names {
		names[i] = flagName(names[i])
	}
	if h := nearest.Hint(name, names); h != "" {
		return "; " + h
	}
	if len(names) == 0 {
		return "; " + p.method.Module + " " + p.method.Name + " takes none"
	}
	return "; there are " + strings.Join(names, ", ")
}

// fieldNames lists the flags of a method.
func fieldNames(f *client.Field, prefix string) (names []string) {
	for _, inner := range f.Fields {
		names = append(names, prefix+inner.Name)
		names = append(names, fieldNames(inner, prefix+inner.Name+".")...)
	}
	return names
}

// convert makes JSON of a text, as its parameter wants it, and sets it.
func (p *paramReader) convert(path []string, f *client.Field, name, text string) error {
	if f == nil || f.Scalar() != "array" {
		value, err := convertValue(f, text)
		if err != nil && f.Sensitive {
			err = errors.New("the value is not " + strings.ToLower(valueWord(f)))
		}
		if err != nil {
			return &invalidParams{name + ": " + err.Error()}
		}
		return p.set(path, value)
	}
	if wholeList(f, text) {
		return p.add(path, jsonvalue.Elements(json.RawMessage(text)))
	}
	element, err := convertValue(elementOf(f), text)
	if err != nil {
		return &invalidParams{name + ": " + err.Error()}
	}
	return p.add(path, []json.RawMessage{element})
}

// wholeList reports whether a text is a list, and not one element of it.
func wholeList(f *client.Field, text string) bool {
	return jsonvalue.Kind(text) == "array" && !elementOf(f).Is("array")
}

// elementOf is what the elements of a list are.
func elementOf(f *client.Field) *client.Field {
	if f.Items == nil {
		return new(client.Field)
	}
	return f.Items
}

func convertValue(f *client.Field, text string) (json.RawMessage, error) {
	quoted, _ := json.Marshal(text)
	if f == nil {
		return quoted, nil
	}
	for _, one := range f.Enum {
		if string(one) == text || string(one) == string(quoted) {
			return one, nil
		}
	}
	kind := jsonvalue.Kind(text)
	switch want := f.Scalar(); want {
	case "string":
		return quoted, nil
	case "integer", "number":
		if kind != "number" {
			return nil, fmt.Errorf("expected %s, got %q", map[string]string{"integer": "an integer", "number": "a number"}[want], text)
		}
	case "boolean":
		if kind != "boolean" {
			return nil, fmt.Errorf("expected true or false, got %q", text)
		}
	case "array":
		if kind != "array" {
			return nil, fmt.Errorf("expected a JSON list, got %q", terminal.Clip(text, 40))
		}
	case "object":
		if kind != "object" {
			return nil, fmt.Errorf("expected a JSON object, got %q", terminal.Clip(text, 40))
		}
	default:
		if kind == "" || len(f.Types) > 0 && !f.Is(kind) && !(kind == "number" && f.Is("integer")) {
			return quoted, nil
		}
	}
	return json.RawMessage(text), nil
}

// parent returns the object that a path's last step is in, and makes those on the way.
func (p *paramReader) parent(path []string) (map[string]any, error) {
	at := p.root
	for i, step := range path[:len(path)-1] {
		var next map[string]any
		switch inner := at[step].(type) {
		case map[string]any:
			next = inner
		case nil:
			next = make(map[string]any)
		case json.RawMessage: // of --data, or of NAME:=JSON
			var members map[string]json.RawMessage
			if json.Unmarshal(inner, &members) != nil || members == nil {
				return nil, &invalidParams{fmt.Sprintf("%s is given as %s, and as an object", strings.Join(path[:i+1], "."), terminal.Clip(string(inner), 40))}
			}
			next = make(map[string]any, len(members))
			for name, m := range members {
				next[name] = m
			}
		default:
			return nil, &invalidParams{strings.Join(path[:i+1], ".") + " is given as a list, and as an object"}
		}
		at[step] = next
		at = next
	}
	return at, nil
}

// touch takes note that a parameter is given, and reports whether it was before.
func (p *paramReader) touch(path []string) (again bool) {
	name := strings.Join(path, "\x00")
	again = p.touched[name]
	p.touched[name] = true
	return again
}

// set puts a value into its place.
func (p *paramReader) set(path []string, value json.RawMessage) error {
	at, err := p.parent(path)
	if err != nil {
		return err
	}
	if p.touch(path) {
		return &invalidParams{strings.Join(path, ".") + " is given twice"}
	}
	at[path[len(path)-1]] = value
	return nil
}

// add puts elements behind those that a list has been given on the command line.
func (p *paramReader) add(path []string, elements []json.RawMessage) error {
	at, err := p.parent(path)
	if err != nil {
		return err
	}
	last := path[len(path)-1]
	list := []json.RawMessage{}
	if p.touch(path) {
		var ok bool
		if list, ok = at[last].([]json.RawMessage); !ok {
			return &invalidParams{strings.Join(path, ".") + " is given as a whole, and element by element"}
		}
	}
	at[last] = append(list, elements...)
	return nil
}
