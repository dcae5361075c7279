package terminal

import (
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"kernos/cmd/kernos/settings"
)

// AddFlags gives a command the flags that choose the form of its output: -o FORM, and --json for
// -o json. The first of the forms is the default; with "raw" among them there is -r, too. The chosen
// form is in o.Mode, which stays empty where none is.
func (o *Output) AddFlags(set *pflag.FlagSet, forms ...string) {
	output := &form{to: &o.Mode, words: forms}
	set.VarP(output, "output", "o", "the form of the output: "+listed(forms))
	alias := func(name, short, mode string) {
		set.BoolFuncP(name, short, "the same as -o "+mode, func(text string) error {
			on, err := strconv.ParseBool(text)
			switch {
			case err != nil:
				return settings.FlagErrorf("--%s takes no value, got %q", name, text)
			case on:
				return output.Set(mode)
			}
			return nil
		})
	}
	if slices.Contains(forms, "json") {
		alias("json", "", "json")
	}
	if slices.Contains(forms, "raw") {
		alias("raw", "r", "raw")
	}
}

// AddTo is AddFlags for a command, which then completes the forms.
func (o *Output) AddTo(c *cobra.Command, forms ...string) {
	o.AddFlags(c.Flags(), forms...)
	_ = c.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(forms, cobra.ShellCompDirectiveNoFileComp))
}

// AddFilter gives a command the flag --jq.
func (o *Output) AddFilter(set *pflag.FlagSet) {
	set.StringVar(&o.Filter, "jq", "", "print what this jq `FILTER` makes of the data")
}

// CheckFlags refuses flags that contradict each other.
func (o *Output) CheckFlags() error {
	switch {
	case o.Filter != "" && o.Template != "":
		return errors.New("--jq and --template both choose what to show: give one of them")
	case o.Template != "" && o.Mode != "":
		return errors.New("--template replaces --output: leave --output out")
	}
	return nil
}

func listed(words []string) string {
	last := len(words) - 1
	if last < 1 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

// A form is the value of --output.
type form struct {
	to    *string
	words []string
}

// Words returns the values that the flag can have.
func (f *form) Words() []string { return f.words }

// Set implements [pflag.Value].
func (f *form) Set(text string) error {
	if !slices.Contains(f.words, text) {
		return settings.FlagErrorf("--output can be %s; got %q", strings.Join(f.words, ", "), text)
	}
	if *f.to != "" && *f.to != text {
		return settings.FlagErrorf("the output can't be both %s and %s: give one of them", *f.to, text)
	}
	*f.to = text
	return nil
}

// String implements [pflag.Value].
func (f *form) String() string { return "" }

// Type implements [pflag.Value].
func (f *form) Type() string { return "FORM" }
