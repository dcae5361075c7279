package line

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
	"unicode"
	"unicode/utf8"

	"github.com/spf13/pflag"

	"kernos/client"
	"kernos/cmd/kernos/terminal"
	"kernos/internal/exit"
	"kernos/internal/jsonvalue"
	"kernos/message"
)

// An Invalid reports a value that its parameter can't have.
type Invalid struct{ reason string }

func (e *Invalid) Error() string { return e.reason }

// An Input is where the values of a call come from that the command line only names, and where those
// go that don't fit into a message.
type Input struct {
	Stdin io.Reader // nil if there is none

	// Keep puts data where the server finds it. Nil means that it can't be done.
	Keep func(data io.Reader) (message.BlobPointer, error)

	// Inline is how many bytes of text stand in the message, where Keep may take more; 0 means any.
	Inline int
}

// Parameters returns the parameters of a call as one JSON object, or the value of --data. The
// schema of the method may be unknown, and m nil: then every value is a string, or raw JSON.
// If the error is an *Invalid, the parameters are those that could be read.
func (l *Line) Parameters(m *client.Method, in Input) (json.RawMessage, error) {
	p, words, err := l.parse(m)
	if err != nil {
		return nil, err
	}
	p.in = in
	for _, word := range words {
		if err := p.word(word); err != nil {
			return nil, err
		}
	}
	return p.result()
}

// parse reads all flags, and returns the words after the name of the method.
func (l *Line) parse(m *client.Method) (*reader, []string, error) {
	flags := new(Flags)
	p := &reader{method: m, flags: flags, tree: newTree()}
	set := p.flagSet(l.Args)
	if err := set.Parse(l.Args); err != nil {
		return nil, nil, parseError(err)
	}
	words := set.Args()
	if dash := set.ArgsLenAtDash(); dash >= 0 {
		words, p.values = words[:dash], words[dash:]
	}
	l.Flags = *flags
	return p, words[min(len(l.Words), len(words)):], l.check()
}

// A reader makes the parameters of a call from a command line.
type reader struct {
	method *client.Method // nil if its schema is not known
	flags  *Flags
	in     Input
	read   bool // standard input, which can be read once

	tree    tree
	assign  []func() error // one for each parameter on the command line; --data comes before them
	object  string         // a JSON object in the place of a parameter: all of them
	words   int            // values without names that were read
	values  []string       // arguments after --
	problem error          // an *Invalid: the first one
}

// flagSet returns the flags of kernos call, and those of the method that the arguments name:
// the name of a flag may be written in several ways, and lead into an object.
func (p *reader) flagSet(args []string) *pflag.FlagSet {
	set := p.flags.Own(p.method)
	for i := 0; i < len(args) && args[i] != "--"; i++ {
		name, long := strings.CutPrefix(args[i], "--")
		name, _, hasValue := strings.Cut(name, "=")
		last := i == len(args)-1
		if own, _, assigned := FindFlag(args[i]); !long && own != nil {
			if takesValue(own) && !assigned {
				i++
			}
			continue
		}
		if !long || name == "" {
			continue
		}
		if set.Lookup(name) == nil {
			f := set.VarPF(p.flag(name), name, "", "")
			if v := f.Value.(*flagValue); v.boolean() || v.field == nil && (last || IsFlag(args[i+1])) {
				f.NoOptDefVal = noValue
			}
		}
		if takesValue(set.Lookup(name)) && !hasValue {
			i++ // the flag's value, whatever it looks like
		}
	}
	return set
}

// A flagValue is the value of a flag of a method. It implements [pflag.Value].
type flagValue struct {
	reader  *reader
	name    string // the name as it was written
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
	return valueWord(v.field)
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

// word reads a word after the name of the method: a pair, a JSON object with all parameters, or the
// value of the next parameter that needs no name.
func (p *reader) word(word string) error {
	if name, value, ok := strings.Cut(word, "="); ok {
		plain, raw := strings.CutSuffix(name, ":")
		if isName(plain) {
			p.pair(plain, value, raw)
			return nil
		}
	}
	places := Positional(p.method)
	var f *client.Field // that the word is the value of, unless flags have set it
	if len(places) > 0 {
		f = places[min(p.words, len(places)-1)]
	}
	if strings.HasPrefix(word, "{") {
		var broken *json.SyntaxError
		switch err := json.Unmarshal([]byte(word), new(any)); {
		case errors.As(err, &broken) && strings.HasPrefix(strings.TrimSpace(word[1:]), `"`):
			hint := ""
			if f != nil {
				hint = fmt.Sprintf("; for a text that begins so, write --%s '{…'", FlagName(f.Name))
			}
			return fmt.Errorf("the JSON object with all parameters isn't JSON: %w, at byte %d%s", err, broken.Offset, hint)
		case err != nil: // a text
		case f == nil && p.object == "" && !p.flags.Given("data"):
			p.object = word
			return nil
		case f != nil && jsonvalue.Members(json.RawMessage(word)).Has(f.Name):
			return fmt.Errorf("is the JSON object all parameters, or the value of %s? Write --data '{…}' or --%s '{…}'", f.Name, FlagName(f.Name))
		}
	}
	if f == nil || strings.HasPrefix(word, "=") || strings.HasPrefix(word, ":=") {
		return stray(p.method, word)
	}
	p.words++
	p.assign = append(p.assign, func() error {
		for _, f := range places {
			if !p.tree.has(f.Name) || f.Scalar() == "array" {
				return p.convert([]string{f.Name}, f, f.Name, word)
			}
		}
		if len(places) > 1 && takesText(places[len(places)-1]) {
			return fmt.Errorf("%q is one word too many: a value of several words stands in quotes, and other parameters need their names; kernos call --help has the forms", word)
		}
		return stray(p.method, word)
	})
	return nil
}

// isName reports whether a text can be the name of a parameter before an equals sign. The part of a
// URI before its query isn't one.
func isName(text string) bool {
	return text != "" && strings.IndexFunc(text, func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("_-.", r)
	}) < 0
}

// pair reads NAME=VALUE, NAME:=JSON, NAME=@FILE or NAME:=@FILE.
func (p *reader) pair(name, value string, raw bool) {
	path, f := findField(p.method, name)
	p.assign = append(p.assign, func() error {
		if file, ok := strings.CutPrefix(value, "@"); ok {
			data, done, err := p.content(f, name, file, raw)
			if done || err != nil {
				return err
			}
			value = string(data)
			if f != nil && !takesText(f) {
				value = strings.TrimSpace(value)
			}
		}
		if !raw {
			return p.convert(path, f, name, value)
		}
		if !isJSON(value) {
			shown := terminal.Clip(value, 40)
			if f != nil && f.Sensitive {
				shown = "the value"
			}
			return &Invalid{fmt.Sprintf("%s: %s is not JSON; for a text write %s=…", name, shown, name)}
		}
		return p.tree.set(path, json.RawMessage(value))
	})
}

func isJSON(text string) bool { return json.Valid([]byte(text)) && utf8.ValidString(text) }

// content returns the content of a file that stands in the message, or sends it by reference, if it
// doesn't fit into a message or isn't text, and the method takes a reference: a BlobPointer under the name
// of the parameter and Ref. It reports whether it did. The blob of a parameter that takes any JSON has the
// JSON text of the value.
func (p *reader) content(f *client.Field, name, file string, raw bool) (data []byte, done bool, err error) {
	source, err := p.open(file)
	if err != nil {
		return nil, false, fmt.Errorf("%s: %w", name, err)
	}
	defer func() { _ = source.Close() }()
	refPath, ref := findField(p.method, name+"Ref")
	takes := f != nil && !f.Sensitive && p.in.Keep != nil && ref != nil && ref.Member("scheme") != nil && ref.Member("path") != nil
	bytesOnly := takes && f.Scalar() == "string" && !raw
	limit := maxFile
	if takes && p.in.Inline > 0 {
		limit = p.in.Inline
	}
	if data, err = io.ReadAll(io.LimitReader(source, int64(limit)+1)); err != nil {
		return nil, false, fmt.Errorf("%s: %w", name, err)
	}
	notText := &exit.Error{Status: exit.Invalid, Cause: fmt.Errorf("%s: %s isn't UTF-8 text, and %s takes text only; kernos cp %s os://… keeps it as a file", name, file, name, terminal.ShellQuote(file))}
	switch all := len(data) <= limit; {
	case all && utf8.Valid(data):
		return data, false, nil
	case all && !bytesOnly:
		return nil, false, notText
	case !takes:
		return nil, false, fileTooLarge(name, file)
	}
	content := io.NopCloser(io.MultiReader(bytes.NewReader(data), source))
	switch {
	case raw:
		content = jsonvalue.Checked(content)
	case !bytesOnly:
		content = io.NopCloser(jsonvalue.Quote(content))
	}
	defer func() { _ = content.Close() }()
	pointer, err := p.in.Keep(content)
	switch e, _ := errors.AsType[*message.Error](err); {
	case errors.Is(err, jsonvalue.ErrNotText):
		return nil, false, notText
	case errors.Is(err, jsonvalue.ErrNotJSON):
		return nil, false, &Invalid{fmt.Sprintf("%s: %s is not JSON; for a text write %s=@…", name, file, name)}
	case e != nil && e.Code == 413:
		return nil, false, fileTooLarge(name, file)
	case err != nil:
		return nil, false, fmt.Errorf("%s: %w", name, err)
	}
	return nil, true, p.tree.set(refPath, pointer.Append(nil))
}

// maxFile is how many bytes of a file are taken: no server takes more as one value.
const maxFile = 64 << 20

func fileTooLarge(name, file string) error {
	return &Invalid{fmt.Sprintf("%s: %s has more than 64 MB, which is the most that a value can have", name, file)}
}

// open opens a file, or standard input for "-".
func (p *reader) open(name string) (io.ReadCloser, error) {
	switch {
	case name != "-":
		return os.Open(name)
	case p.read || p.in.Stdin == nil:
		return nil, errors.New("standard input can be read once only")
	}
	p.read = true
	return io.NopCloser(p.in.Stdin), nil
}

// stdin sets the parameter that takes standard input, if the method has one and nothing else has set it, to what is piped
// into the command. The newline of a single line is left out.
func (p *reader) stdin() error {
	if p.method == nil || p.read || !isPiped(p.in.Stdin) {
		return nil
	}
	f := p.method.Member(p.method.Stdin)
	if f == nil || p.tree.root[f.Name] != nil || p.tree.root[f.Name+"Ref"] != nil {
		return nil
	}
	data, done, err := p.content(f, f.Name, "-", false)
	text := string(data)
	if line, one := strings.CutSuffix(text, "\n"); one && !strings.Contains(line, "\n") {
		text = strings.TrimSuffix(line, "\r")
	}
	if done || err != nil || text == "" {
		return err
	}
	return p.convert([]string{f.Name}, f, f.Name, text)
}

// isPiped reports whether standard input is a pipe or a file: others may never end.
func isPiped(in io.Reader) bool {
	file, ok := in.(*os.File)
	if !ok {
		return in != nil
	}
	info, err := file.Stat()
	return err == nil && (info.Mode().IsRegular() || info.Mode()&os.ModeNamedPipe != 0)
}

// file reads a file, or standard input for "-".
func (p *reader) file(name string) ([]byte, error) {
	source, err := p.open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = source.Close() }()
	data, err := io.ReadAll(io.LimitReader(source, maxFile+1))
	if err == nil && len(data) > maxFile {
		err = fileTooLarge("--data", name)
	}
	return data, err
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
	for _, assign := range append(p.assign, p.place, p.stdin) { // over --data, wherever that stands
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

// data returns the value of --data, or of the object that means the same, or nil.
func (p *reader) data() (json.RawMessage, error) {
	if p.object != "" {
		return json.RawMessage(p.object), nil
	}
	if !p.flags.Given("data") {
		return nil, nil
	}
	text := p.flags.Data
	if file, ok := strings.CutPrefix(text, "@"); ok || text == "-" {
		if !ok {
			file = "-"
		}
		data, err := p.file(file)
		if err != nil {
			return nil, fmt.Errorf("--data: %w", err)
		}
		text = string(data)
	}
	if strings.TrimSpace(text) == "" {
		return nil, &Invalid{"--data is empty; write {} for no parameters"}
	}
	shown := terminal.Clip(strings.TrimSpace(text), 60)
	if p.method != nil && hasSecret(&p.method.Field) {
		shown = "what was given (it may hold a secret, and is not shown)"
	}
	switch kind := jsonvalue.Kind(text); {
	case !utf8.ValidString(text):
		return nil, &Invalid{"--data isn't UTF-8 text, so it isn't JSON"}
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
		err = errors.New("the value is not " + strings.ToLower(valueWord(f)))
	}
	if err != nil {
		return &Invalid{name + ": " + err.Error()}
	}
	return p.tree.set(path, value)
}

// element adds one element to the list that a parameter is, or several words between commas.
func (p *reader) element(path []string, f *client.Field, name, text string) error {
	if words := strings.Split(text, ","); len(words) > 1 && element(f).Format == client.FormatWord {
		for _, word := range words {
			if err := p.element(path, f, name, strings.TrimSpace(word)); err != nil {
				return err
			}
		}
		return nil
	}
	value, err := convertValue(element(f), text)
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
