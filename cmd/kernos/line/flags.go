package line

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"kernos/client"
	"kernos/cmd/kernos/settings"
	"kernos/cmd/kernos/terminal"
	"kernos/internal/quantity"
)

// Flags are the flags that kernos call has itself. All others are parameters of the method.
type Flags struct {
	Data     string
	Show     terminal.Output // how the answer is shown
	As       string
	Context  string
	Server   string
	DryRun   bool
	NoPrompt bool
	Help     bool

	Message client.Metadata // metadata of the call's message
	Timeout quantity.PositiveDuration
	Verbose bool
	Watch   bool // repeat a query, and show its answer in place

	Background bool   // run the call as a job
	Delay      string // Delay, At or Schedule is when the job begins; at most one is given
	At         string
	Schedule   string

	set *pflag.FlagSet // the set that has parsed these flags
}

// Given reports whether the command line has a flag, by its long name.
func (f *Flags) Given(name string) bool { return f.set != nil && f.set.Changed(name) }

// PeopleFlag is the flag of calls that commands such as kernos token list are: they show the data as for people, and a
// query among them has no id and no correlation, so that looking doesn't fill the journal. Nothing else depends on it.
const PeopleFlag = "for-people"

// requestForms are the values of --as.
var requestForms = []string{"jsonrpc", "ndjson", "curl"}

// yielding are the flags that a parameter of the same name takes the place of: kernos message list
// --correlation is a parameter of Message.List. A parameter that is named like one of the other flags
// is written NAME=VALUE.
var yielding = []string{"json", "raw", "correlation", "causation", "idempotency-key", "timeout", "verbose", "watch", "background", "delay", "at", "schedule"}

// Own returns the flags of kernos call as a set that parses into f: those that a call of this method,
// which may be nil, can have.
func (f *Flags) Own(m *client.Method) *pflag.FlagSet {
	set := newSet()
	f.define(terminal.Modes...).VisitAll(func(own *pflag.Flag) {
		if !declares(m, own.Name) || !slices.Contains(yielding, own.Name) {
			set.AddFlag(own)
		}
	})
	f.set = set
	return set
}

func newSet() *pflag.FlagSet {
	set := pflag.NewFlagSet("call", pflag.ContinueOnError)
	set.SortFlags = false
	return set
}

// AddTo gives a command that makes calls the flags of every call: those that it doesn't have itself, and not those for
// parameters. The first of the forms is the one for people. It returns the names of the flags of every call.
func (f *Flags) AddTo(c *cobra.Command, forms ...string) (names []string) {
	var added []string
	c.SetUsageFunc(func(c *cobra.Command) error {
		var own []string
		c.Flags().VisitAll(func(f *pflag.Flag) {
			if !slices.Contains(added, f.Name) {
				own = append(own, f.Name)
			}
		})
		return settings.Usage(c, []settings.Group{{Title: "Flags", Names: own}}, "Flags of every call")
	})
	f.define(forms...).VisitAll(func(own *pflag.Flag) {
		if slices.Contains([]string{"data", "no-prompt", "help", PeopleFlag}, own.Name) {
			return
		}
		names = append(names, own.Name)
		if c.Flags().Lookup(own.Name) != nil {
			return
		}
		if own.Shorthand != "" && c.Flags().ShorthandLookup(own.Shorthand) != nil {
			own.Shorthand = ""
		}
		c.Flags().AddFlag(own)
		added = append(added, own.Name)
		_ = c.RegisterFlagCompletionFunc(own.Name, func(_ *cobra.Command, _ []string, word string) ([]string, cobra.ShellCompDirective) {
			if own.Name == "template" {
				return nil, cobra.ShellCompDirectiveDefault
			}
			return ownValues(own, word), cobra.ShellCompDirectiveNoFileComp
		})
	})
	f.set = c.Flags()
	return names
}

// line returns the command line of a call with these flags, whose words are still missing.
func (f *Flags) line() (*Line, error) {
	if err := f.check(); err != nil {
		return nil, err
	}
	return &Line{Flags: *f, TimeLimit: time.Duration(f.Timeout)}, f.Show.Check()
}

func (f *Flags) define(forms ...string) *pflag.FlagSet {
	set := newSet()
	text := func(to *string, name, short, value, usage string, words ...string) {
		set.VarP(&ownValue{flags: f, name: name, text: to, value: value, words: words}, name, short, usage)
	}
	boolean := func(to *bool, name, short, usage string) {
		set.VarPF(&ownValue{flags: f, name: name, boolean: to}, name, short, usage).NoOptDefVal = "true"
	}
	text(&f.Data, "data", "d", "JSON", "all parameters as one JSON object; - for standard input, @FILE for a file")
	f.Show.AddFlags(set, forms...)
	text(&f.Show.Filter, "jq", "", "FILTER", "show what this jq filter makes of the data")
	text(&f.Show.Template, "template", "", "TEMPLATE", "show the data with this Go template, or the one in this file")
	boolean(&f.DryRun, "dry-run", "", "check everything and show the request, but don't send it")
	text(&f.As, "as", "", "FORM", "show the request as jsonrpc, ndjson or curl, and don't send it", requestForms...)
	text(&f.Context, "context", "", "NAME", "call the server of this context (kernos context list)")
	text(&f.Server, "server", "", "URL", "call the server at this address: ws://…, wss://… or unix:///…")
	boolean(&f.NoPrompt, "no-prompt", "", "don't ask for parameters that are missing")
	text(&f.Message.Correlation, "correlation", "", "ID", "the workflow that the call belongs to; without it, a workflow of its own")
	text(&f.Message.Causation, "causation", "", "ID", "the message that causes the call")
	text(&f.Message.IdempotencyKey, "idempotency-key", "", "KEY", "a command with the same key runs once")
	set.Var(&f.Timeout, "timeout", "cancel the call if it isn't answered in this time, such as 10s; the server's own limit applies too")
	boolean(&f.Background, "background", "", "run the call as a job, and print the id of the job: kernos job wait ID")
	text(&f.Delay, "delay", "", "TIME", "with --background: begin after this time, such as 10m")
	text(&f.At, "at", "", "TIME", "with --background: begin at this time, such as 2026-01-31T12:00:00Z")
	text(&f.Schedule, "schedule", "", "CRON", "with --background: run again and again, such as '0 9 * * 1-5' or '@every 10m'")
	boolean(&f.Watch, "watch", "w", "repeat a query every second, and show its answer in place of the one before")
	boolean(&f.Verbose, "verbose", "v", "print the id of the message and its correlation, to standard error")
	boolean(&f.Help, "help", "h", "show what the method takes")
	boolean(&f.Show.People, PeopleFlag, "", "show the data as for a person, also where none reads it")
	set.Lookup(PeopleFlag).Hidden = true
	return set
}

// An ownValue is the value of a flag of kernos call. It implements [pflag.Value].
type ownValue struct {
	flags   *Flags
	name    string
	text    *string
	boolean *bool // used in place of text
	value   string
	words   []string // the only values, if there are any
}

// Set implements [pflag.Value].
func (v *ownValue) Set(text string) error {
	if v.flags.Given(v.name) && v.name != "help" {
		return settings.FlagErrorf("--%s is given twice", v.name)
	}
	if v.boolean != nil {
		on, err := strconv.ParseBool(text)
		if err != nil {
			return settings.FlagErrorf("--%s takes no value, got %q", v.name, text)
		}
		*v.boolean = on
		return nil
	}
	if v.words != nil && !slices.Contains(v.words, text) {
		return settings.FlagErrorf("--%s can be %s; got %q", v.name, strings.Join(v.words, ", "), text)
	}
	*v.text = text
	return nil
}

// String implements [pflag.Value].
func (v *ownValue) String() string {
	if v.text == nil {
		return ""
	}
	return *v.text
}

// Type implements [pflag.Value]: what stands for the value in a help text.
func (v *ownValue) Type() string {
	if v.boolean != nil {
		return "bool"
	}
	return v.value
}

// Words returns the values that the flag can have; nil if it can have any.
func (v *ownValue) Words() []string { return v.words }

// FlagsHelp lists the flags of kernos call: those that no parameter can have the name of, or the others.
func FlagsHelp(yield bool) string {
	set := newSet()
	allFlags().VisitAll(func(f *pflag.Flag) {
		if slices.Contains(yielding, f.Name) == yield {
			set.AddFlag(f)
		}
	})
	return strings.TrimSuffix(set.FlagUsages(), "\n")
}

// allFlags are the flags of kernos call, to look them up.
var allFlags = sync.OnceValue(func() *pflag.FlagSet { return new(Flags).define(terminal.Modes...) })

// FlagWords returns the values that a flag of kernos call can have; nil if it can have any.
func FlagWords(f *pflag.Flag) []string {
	if w, ok := f.Value.(interface{ Words() []string }); ok {
		return w.Words()
	}
	return nil
}

// FindFlag finds a flag of kernos call in an argument such as --output=raw, -o, -ojson or -o=json. Other
// arguments that begin with one hyphen are not flags, but may be values.
func FindFlag(argument string) (f *pflag.Flag, value string, hasValue bool) {
	set := allFlags()
	if name, long := strings.CutPrefix(argument, "--"); long {
		name, value, hasValue = strings.Cut(name, "=")
		return set.Lookup(name), value, hasValue
	}
	letters, short := strings.CutPrefix(argument, "-")
	if !short || letters == "" {
		return nil, "", false
	}
	if f = set.ShorthandLookup(letters[:1]); f == nil || len(letters) == 1 {
		return f, "", false
	}
	value, assigned := strings.CutPrefix(letters[1:], "=")
	if !takesValue(f) || !assigned && !slices.Contains(FlagWords(f), value) {
		return nil, "", false
	}
	return f, value, true
}

// IsReserved reports whether no flag of a method can have this name, because kernos call has it.
func IsReserved(name string) bool {
	return allFlags().Lookup(name) != nil && !slices.Contains(yielding, name)
}

// takesValue reports whether a flag needs a value.
func takesValue(f *pflag.Flag) bool { return f.NoOptDefVal == "" }

// IsFlag reports whether an argument is a flag and not a word.
func IsFlag(argument string) bool { return len(argument) > 1 && argument[0] == '-' }

// check refuses flags that contradict each other.
func (f *Flags) check() error {
	switch {
	case f.Given("context") && f.Given("server"):
		return errors.New("--context and --server both choose the server: give one of them")
	case !f.Background && (f.Delay != "" || f.At != "" || f.Schedule != ""):
		return errors.New("--delay, --at and --schedule need --background: the call becomes a job, which begins then")
	}
	return f.Show.CheckFlags()
}

// parseError returns an error of pflag in the words of kernos call.
func parseError(err error) error {
	if e, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		if _, timed := e.GetFlag().Value.(*quantity.PositiveDuration); timed { // the other errors name their flags
			return fmt.Errorf("--%s: %w", e.GetFlag().Name, e.Unwrap())
		}
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

	// TimeLimit is the value of --timeout, which is a flag of kernos call or a parameter of the method; 0 if there is none.
	TimeLimit time.Duration
}

// Read reads a command line as far as that is possible before the method is known. A flag that
// follows the flag of a parameter may be its value; [Line.Settle] decides that when the method is
// known. Until then the server, and whether help is wanted, are taken from wherever they stand.
func Read(args []string) (*Line, error) {
	l := &Line{Args: args}
	var own []string
	words, unknown := 0, "" // the first flag of a parameter, or --: whether it takes a value isn't known yet
	for i := 0; i < len(args) && args[i] != "--"; i++ {
		f, _, hasValue := FindFlag(args[i])
		switch {
		case !IsFlag(args[i]):
			if words++; unknown == "" && len(l.Words) == words-1 && words <= 2 && !strings.ContainsRune(args[i], '=') {
				l.Words = append(l.Words, args[i])
			}
		case f != nil:
			flag := args[i : i+1]
			if takesValue(f) && !hasValue && i+1 < len(args) {
				i++
				flag = args[i-1 : i+1]
			}
			// What may be a parameter, whose values are others, is left until the method is known.
			if !takesValue(f) || !slices.Contains(yielding, f.Name) {
				own = append(own, flag...)
			} else if f.Name == "timeout" {
				_, value, _ := strings.Cut(strings.Join(flag, "="), "=")
				l.TimeLimit, _ = quantity.ParseDuration(value)
			}
		default:
			name, _, assigned := strings.Cut(args[i], "=")
			unknown = cmp.Or(unknown, name)
			if next, _, _ := FindFlag(args[min(i+1, len(args)-1)]); !assigned && next != nil && !slices.Contains([]string{"help", "context", "server"}, next.Name) {
				i++ // a value, or else a flag that matters later
			}
		}
	}
	if slices.Contains(args, "--") {
		unknown = cmp.Or(unknown, "--")
	}
	if err := l.Own(nil).Parse(own); err != nil {
		return nil, parseError(err)
	}
	if len(l.Words) == 0 && unknown != "" {
		return nil, fmt.Errorf("%s stands before the name of what is to be called: kernos call TYPE %s …", unknown, unknown)
	}
	l.HasParameters = unknown != "" || words > len(l.Words)
	return l, l.check()
}

// Settle reads the flags of kernos call again, now that the method is known: what looks like one of
// them may be the value of a parameter.
func (l *Line) Settle(m *client.Method) error {
	_, _, err := l.parse(m)
	return err
}
