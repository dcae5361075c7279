// Package callline reads and writes the command line of one call: kernos MODULE METHOD, the
// parameters of the method, and the flags of kernos call itself.
//
//	line, err := callline.Read(args)             // before the server is known
//	…                                            // the server describes the method
//	params, err := line.Parameters(method, stdin)
//
// The flags of a method are a pflag.FlagSet that is made at run time; the types of their
// values come from the JSON Schema of the method.
package callline

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"kernos/cmd/kernos/output"
)

// Flags are the flags that kernos call has itself. All others are parameters of the method.
type Flags struct {
	Data     string
	Output   string
	JQ       string
	Template string
	As       string
	Context  string
	Server   string
	DryRun   bool
	NoPrompt bool
	Help     bool

	set *pflag.FlagSet // that has parsed them
}

// Given reports whether the command line has a flag, by its long name.
func (f *Flags) Given(name string) bool { return f.set != nil && f.set.Changed(name) }

// RequestForms are the values of --as.
var RequestForms = []string{"jsonrpc", "ndjson", "curl"}

// Own returns the flags of kernos call as a set that parses into f.
func (f *Flags) Own() *pflag.FlagSet {
	set := pflag.NewFlagSet("call", pflag.ContinueOnError)
	set.SortFlags = false
	f.set = set
	text := func(to *string, name, short, value, usage string, words ...string) {
		set.VarP(&ownValue{flags: f, name: name, text: to, value: value, words: words}, name, short, usage)
	}
	boolean := func(to *bool, name, short, usage string) {
		set.VarPF(&ownValue{flags: f, name: name, boolean: to}, name, short, usage).NoOptDefVal = "true"
	}
	text(&f.Data, "data", "d", "JSON", "all parameters as one JSON object; - for standard input, @FILE for a file")
	text(&f.Output, "output", "o", "FORM", "pretty (on a terminal), ndjson (elsewhere), json, raw or table", output.Modes...)
	text(&f.JQ, "jq", "", "FILTER", "show what this jq filter makes of the data")
	text(&f.Template, "template", "", "TEMPLATE", "show the data with this Go template, or the one in this file")
	boolean(&f.DryRun, "dry-run", "", "check everything and show the request, but don't send it")
	text(&f.As, "as", "", "FORM", "show the request as jsonrpc, ndjson or curl, and don't send it", RequestForms...)
	text(&f.Context, "context", "", "NAME", "call the server of this context (kernos context list)")
	text(&f.Server, "server", "", "URL", "call the server at this address: ws://…, wss://… or unix:///…")
	boolean(&f.NoPrompt, "no-prompt", "", "don't ask for parameters that are missing")
	boolean(&f.Help, "help", "h", "show what the method takes")
	return set
}

// An ownValue is the value of a flag of kernos call. It implements [pflag.Value].
type ownValue struct {
	flags   *Flags
	name    string
	text    *string
	boolean *bool // in place of text
	value   string
	words   []string // the only values, if there are any
}

// Set implements [pflag.Value].
func (v *ownValue) Set(text string) error {
	if v.flags.Given(v.name) && v.name != "help" {
		return fmt.Errorf("--%s is given twice", v.name)
	}
	if v.boolean != nil {
		on, err := strconv.ParseBool(text)
		if err != nil {
			return fmt.Errorf("--%s takes no value, got %q", v.name, text)
		}
		*v.boolean = on
		return nil
	}
	if v.words != nil && !slices.Contains(v.words, text) {
		return fmt.Errorf("--%s can be %s; got %q", v.name, strings.Join(v.words, ", "), text)
	}
	*v.text = text
	return nil
}

// String implements [pflag.Value].
func (v *ownValue) String() string { return "" }

// Type implements [pflag.Value]: what stands for the value in a help text.
func (v *ownValue) Type() string {
	if v.boolean != nil {
		return "bool"
	}
	return v.value
}

// FlagsHelp lists the flags of kernos call.
func FlagsHelp() string { return strings.TrimSuffix(new(Flags).Own().FlagUsages(), "\n") }

// Words returns the values that a flag of kernos call can have; nil if it can have any.
func Words(f *pflag.Flag) []string { return f.Value.(*ownValue).words }

// Find finds a flag of kernos call in an argument such as --output=raw or -o.
func Find(argument string) (f *pflag.Flag, value string, hasValue bool) {
	set := new(Flags).Own()
	if name, short := strings.CutPrefix(argument, "-"); short && len(name) == 1 {
		return set.ShorthandLookup(name), "", false
	}
	name, long := strings.CutPrefix(argument, "--")
	if !long {
		return nil, "", false
	}
	name, value, hasValue = strings.Cut(name, "=")
	return set.Lookup(name), value, hasValue
}

// IsOwn reports whether an argument is a flag of kernos call.
func IsOwn(argument string) bool {
	f, _, _ := Find(argument)
	return f != nil
}

// TakesValue reports whether a flag needs a value.
func TakesValue(f *pflag.Flag) bool { return f.NoOptDefVal == "" }

// IsFlag reports whether an argument is a flag and not a word.
func IsFlag(argument string) bool { return len(argument) > 1 && argument[0] == '-' }

// check refuses flags that contradict each other.
func (f *Flags) check() error {
	switch {
	case f.Given("jq") && f.Given("template"):
		return errors.New("--jq and --template both choose what to show: give one of them")
	case f.Given("template") && f.Given("output"):
		return errors.New("--template replaces --output: leave --output out")
	case f.Given("context") && f.Given("server"):
		return errors.New("--context and --server both choose the server: give one of them")
	}
	return nil
}

// parseError returns an error of pflag in the words of kernos call.
func parseError(err error) error {
	if e, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		return e.Unwrap()
	}
	if e, ok := errors.AsType[*pflag.ValueRequiredError](err); ok {
		f := e.GetFlag()
		if v, own := f.Value.(*ownValue); own {
			return fmt.Errorf("--%s needs a value: --%s %s", f.Name, f.Name, v.value)
		}
		return fmt.Errorf("--%s needs a value", f.Name)
	}
	if e, ok := errors.AsType[*pflag.NotExistError](err); ok && e.GetSpecifiedShortnames() != "" {
		return fmt.Errorf("there is no flag -%s; parameters are written --NAME VALUE", e.GetSpecifiedShortnames())
	}
	return err
}

// A Line is the command line of a call.
type Line struct {
	Flags
	Args          []string // all of it
	Words         []string // TYPE, or MODULE METHOD, or nothing
	HasParameters bool     // something follows the words
}

// Read reads a command line as far as that is possible before the method is known. The
// server, and whether help is wanted, are found wherever they stand.
func Read(args []string) (*Line, error) {
	l := &Line{Args: args}
	set := l.Own()
	set.ParseErrorsAllowlist.UnknownFlags = true
	// Whether an unknown flag takes a value isn't known yet, so the words end at the first one.
	end, unknown := len(args), ""
	set.SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		if !IsOwn("--"+name) && unknown == "" {
			end, unknown = set.NArg(), "--"+name
		}
		return pflag.NormalizedName(name)
	})
	if err := set.Parse(longForms(args)); err != nil {
		return nil, parseError(err)
	}
	if dash := set.ArgsLenAtDash(); dash >= 0 && dash < end {
		end, unknown = dash, "--"
	}
	l.Words = set.Args()[:min(end, set.NArg(), 2)]
	if i := slices.IndexFunc(l.Words, func(w string) bool { return strings.ContainsRune(w, '=') }); i >= 0 {
		l.Words = l.Words[:i]
	}
	if len(l.Words) == 0 && unknown != "" {
		return nil, fmt.Errorf("%s stands before the name of what is to be called: kernos call TYPE %s …", unknown, unknown)
	}
	l.HasParameters = unknown != "" || set.NArg() > len(l.Words)
	return l, l.check()
}

// longForms writes short flags in a long form. Only a whole -o is --output: -ok may be the
// value of a parameter, and is read as an unknown flag.
func longForms(args []string) []string {
	long := slices.Clone(args)
	for i, a := range args {
		f, _, _ := Find(a)
		switch {
		case a == "--":
			return long
		case !IsFlag(a) || strings.HasPrefix(a, "--"):
		case f != nil:
			long[i] = "--" + f.Name
		default:
			long[i] = "-" + a
		}
	}
	return long
}
