package callline

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"kernos/client"
	"kernos/cmd/kernos/terminal"
	"kernos/internal/jsonvalue"
)

// An Invalid reports a value that its parameter can't have.
type Invalid struct{ reason string }

func (e *Invalid) Error() string { return e.reason }

// Parameters returns the parameters of a call as one JSON object, or the value of --data. The
// schema of the method may be unknown, and m nil: then every value is a string, or raw JSON.
// If the error is an *Invalid, the parameters are those that could be read.
func (l *Line) Parameters(m *client.Method, stdin io.Reader) (json.RawMessage, error) {
	flags := new(Flags)
	p := &reader{method: m, flags: flags, stdin: stdin, tree: newTree()}
	set, err := p.flagSet(l.Args)
	if err != nil {
		return nil, err
	}
	if err := set.Parse(l.Args); err != nil {
		return nil, parseError(err)
	}
	l.Flags = *flags
	words := set.Args()
	if dash := set.ArgsLenAtDash(); dash >= 0 {
		words, p.values = words[:dash], words[dash:]
	}
	for _, word := range words[min(len(l.Words), len(words)):] {
		if err := p.pair(word); err != nil {
			return nil, err
		}
	}
	if err := l.check(); err != nil {
		return nil, err
	}
	return p.result()
}

// A reader makes the parameters of a call from a command line.
type reader struct {
	method *client.Method // nil if its schema is not known
	flags  *Flags
	stdin  io.Reader
	read   bool // standard input, which can be read once

	tree    tree
	assign  []func() error // one for each parameter on the command line; --data comes before them
	values  []string       // after --
	problem error          // an *Invalid: the first one
}

// flagSet returns the flags of kernos call, and those of the method that the arguments name:
// the name of a flag may be written in several ways, and lead into an object.
func (p *reader) flagSet(args []string) (*pflag.FlagSet, error) {
	set := p.flags.Own()
	for i, a := range args {
		if a == "--" {
			break
		}
		name, long := strings.CutPrefix(a, "--")
		name, _, hasValue := strings.Cut(name, "=")
		if !long || name == "" {
			continue
		}
		last := i == len(args)-1
		if set.Lookup(name) == nil {
			f := set.VarPF(p.flag(name), name, "", "")
			if v := f.Value.(*flagValue); v.boolean() || v.field == nil && (last || IsFlag(args[i+1])) {
				f.NoOptDefVal = noValue
			}
		}
		if f := set.Lookup(name); TakesValue(f) && !hasValue && !last && !IsOwn(a) && (args[i+1] == "--" || IsOwn(args[i+1])) {
			return nil, fmt.Errorf("--%s needs a value; if that is %s, write --%s=%s", name, args[i+1], name, args[i+1])
		}
	}
	return set, nil
}

// A flagValue is the value of a flag of a method. It implements [pflag.Value].
type flagValue struct {
	reader  *reader
	name    string // as it was written
	path    []string
	field   *client.Field // nil if the schema doesn't have it, or isn't known
	negated bool          // --no-NAME
	unknown bool          // the method doesn't have it; field is the one that was probably meant
}

// flag finds the parameter that a flag sets.
func (p *reader) flag(name string) *flagValue {
	v := &flagValue{reader: p, name: name}
	if v.path, v.field = findField(p.method, name); v.field != nil || p.method == nil {
		return v
	}
	if plain, ok := strings.CutPrefix(name, "no-"); ok {
		if path, f := findField(p.method, plain); f != nil && f.Scalar() == "boolean" {
			v.path, v.field, v.negated = path, f, true
			return v
		}
	}
	v.unknown = true
	v.path, v.field = meantField(p.method, name)
	return v
}

func (v *flagValue) boolean() bool { return v.field != nil && v.field.Scalar() == "boolean" }

// noValue stands for the value of a flag that was written without one.
const noValue = "\x00"

// Set implements [pflag.Value].
func (v *flagValue) Set(text string) error {
	p := v.reader
	if v.unknown || v.negated && text != noValue {
		_ = p.note(&Invalid{fmt.Sprintf("there is no parameter %s%s", v.name, hint(p.method, v.name))})
		if v.field == nil {
			return nil
		}
	}
	p.assign = append(p.assign, func() error {
		if text == noValue {
			return p.tree.set(v.path, json.RawMessage(strconv.FormatBool(!v.negated)))
		}
		return p.convert(v.path, v.field, v.name, text)
	})
	return nil
}

// String implements [pflag.Value].
func (v *flagValue) String() string { return "" }

// Type implements [pflag.Value].
func (v *flagValue) Type() string {
	if v.field == nil {
		return "VALUE"
	}
	return ValueWord(v.field)
}

// note keeps the first *Invalid, so that the other parameters can still be read. It returns
// other errors.
func (p *reader) note(err error) error {
	if _, ok := errors.AsType[*Invalid](err); !ok {
		return err
	}
	if p.problem == nil {
		p.problem = err
	}
	return nil
}

// pair reads NAME=VALUE, NAME:=JSON, NAME=@FILE or NAME:=@FILE.
func (p *reader) pair(word string) error {
	name, value, ok := strings.Cut(word, "=")
	if !ok || name == "" || name == ":" {
		return Stray(p.method, word)
	}
	name, raw := strings.CutSuffix(name, ":")
	path, f := findField(p.method, name)
	p.assign = append(p.assign, func() error {
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
		if !json.Valid([]byte(value)) {
			shown := terminal.Clip(value, 40)
			if f != nil && f.Sensitive {
				shown = "the value"
			}
			return &Invalid{fmt.Sprintf("%s: %s is not JSON; for a text write %s=…", name, shown, name)}
		}
		return p.tree.set(path, json.RawMessage(value))
	})
	return nil
}

// file reads a file, or standard input for "-".
func (p *reader) file(name string) (string, error) {
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

// result makes the parameters from what was read.
func (p *reader) result() (json.RawMessage, error) {
	whole, err := p.data()
	if err = p.note(err); err != nil {
		return nil, err
	}
	if whole != nil && len(p.assign) == 0 && len(p.values) == 0 {
		return whole, p.problem
	}
	if whole != nil {
		members := jsonvalue.Members(whole)
		if members == nil {
			return nil, &Invalid{"--data is not a JSON object, so other parameters can't be added to it"}
		}
		for _, m := range members {
			p.tree.root[m.Name] = m.Value
		}
	}
	for _, assign := range append(p.assign, p.place) { // over --data, wherever that stands
		if err := p.note(assign()); err != nil {
			return nil, err
		}
	}
	params, err := json.Marshal(p.tree.root)
	if err != nil {
		return nil, err
	}
	return params, p.problem
}

// data returns the value of --data, or nil.
func (p *reader) data() (json.RawMessage, error) {
	if !p.flags.Given("data") {
		return nil, nil
	}
	text := p.flags.Data
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
		return nil, &Invalid{"--data is empty; write {} for no parameters"}
	}
	shown := terminal.Clip(strings.TrimSpace(text), 60)
	if p.method != nil && hasSecret(&p.method.Field) {
		shown = "what was given (it may hold a secret, and is not shown)"
	}
	switch kind := jsonvalue.Kind(text); {
	case kind == "":
		return nil, &Invalid{"--data is not JSON: " + shown}
	case p.method != nil && kind != "object":
		return nil, &Invalid{"--data must be one JSON object with the parameters as its members, such as {\"name\": …}; got " + shown}
	}
	return bytes.TrimSpace([]byte(text)), nil
}

// hasSecret reports whether a field is a secret, or has one within it.
func hasSecret(f *client.Field) bool {
	return f.Sensitive || slices.ContainsFunc(f.Fields, hasSecret)
}

// place gives the values after -- to the parameters that have none. The values are taken as
// they are, so that a script can pass on whatever it was given: none is a flag, or names
// another parameter. A list takes all values that are left.
func (p *reader) place() error {
	if len(p.values) == 0 {
		return nil
	}
	if p.method == nil {
		return fmt.Errorf("the server doesn't describe the method, so %q after -- has no name; write NAME=VALUE before --", p.values[0])
	}
	rest := p.values
	for _, f := range Positions(p.method) {
		if _, given := p.tree.root[f.Name]; given {
			continue
		}
		for len(rest) > 0 {
			value, path := rest[0], []string{f.Name}
			rest = rest[1:]
			if f.Scalar() != "array" {
				if err := p.convert(path, f, f.Name, value); err != nil {
					return err
				}
				break
			}
			if err := p.element(path, f, f.Name, value); err != nil {
				return err
			}
		}
	}
	if len(rest) > 0 {
		return &Invalid{fmt.Sprintf("no parameter is left for %q", rest[0])}
	}
	return nil
}

// convert makes JSON of a text, as its parameter wants it, and sets it.
func (p *reader) convert(path []string, f *client.Field, name, text string) error {
	if f != nil && f.Scalar() == "array" {
		if isWholeList(f, text) {
			return p.tree.add(path, jsonvalue.Elements(json.RawMessage(text)))
		}
		return p.element(path, f, name, text)
	}
	value, err := convertValue(f, text)
	if err != nil && f.Sensitive {
		err = errors.New("the value is not " + strings.ToLower(ValueWord(f)))
	}
	if err != nil {
		return &Invalid{name + ": " + err.Error()}
	}
	return p.tree.set(path, value)
}

// element adds one element to the list that a parameter is.
func (p *reader) element(path []string, f *client.Field, name, text string) error {
	value, err := convertValue(Element(f), text)
	if err != nil {
		return &Invalid{name + ": " + err.Error()}
	}
	return p.tree.add(path, []json.RawMessage{value})
}

// Convert makes JSON of one text for a parameter, as a person types it when asked.
func Convert(m *client.Method, f *client.Field, text string) (json.RawMessage, error) {
	p := &reader{method: m, tree: newTree()}
	if err := p.convert([]string{f.Name}, f, f.Name, text); err != nil {
		return nil, err
	}
	return json.Marshal(p.tree.root[f.Name])
}
