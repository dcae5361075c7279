package main

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"kernos/cmd/kernos/line"
	"kernos/daemon"
)

// Every command that prints data takes -o json, --json and --jq; the others are named here. Commands
// that don't have their flags parsed are calls, which take all of them.
func TestForms(t *testing.T) {
	without := strings.Fields("kernos cat cluster completion bash fish zsh context add remove set use convert cp edit handle mcp install pipe backup restart restore secret serve service uninstall logs stop trust untrust")
	none := make(map[string]bool)
	var check func(c *cobra.Command)
	check = func(c *cobra.Command) {
		var has int
		for _, name := range []string{"output", "json", "jq"} {
			if f := c.Flags().Lookup(name); f != nil && !(c.Name() == "handle" && name == "output") { // that is a schema
				has++
			}
		}
		switch {
		case c.DisableFlagParsing:
		case has == 0:
			none[c.Name()] = true
		case has < 3 && c.Name() != "chat": // it is a conversation, which no filter takes
			t.Errorf("%s has only some of -o, --json and --jq", c.CommandPath())
		}
		for _, sub := range c.Commands() {
			check(sub)
		}
	}
	check(rootCommand())
	if got := slices.Sorted(maps.Keys(none)); !slices.Equal(got, slices.Sorted(slices.Values(without))) {
		t.Errorf("these have no form for programs:\n%q, want\n%q", got, slices.Sorted(slices.Values(without)))
	}
}

// Help texts fit a terminal, and say what a flag takes in capitals.
func TestHelpTexts(t *testing.T) {
	var check func(c *cobra.Command)
	check = func(c *cobra.Command) {
		for line := range strings.Lines(c.Long) {
			if n := utf8.RuneCountInString(line); n > 100 && !strings.HasPrefix(line, "  ") { // lists and examples are as long as they are
				t.Errorf("a line of %s --help has %d characters: %s", c.CommandPath(), n, line)
			}
		}
		c.Flags().VisitAll(func(f *pflag.Flag) {
			if value, _ := pflag.UnquoteUsage(f); !f.Hidden && value != strings.ToUpper(value) && !strings.HasPrefix(value, "PATH=") {
				t.Errorf("%s has --%s %s: write what it takes in capitals, in backquotes", c.CommandPath(), f.Name, value)
			}
		})
		for _, sub := range c.Commands() {
			check(sub)
		}
	}
	check(rootCommand())
}

// The overview of kernos alone names every command, and leaves a row of a small terminal for the prompt.
func TestOverviewFitsATerminal(t *testing.T) {
	var out strings.Builder
	if err := overview(&out); err != nil {
		t.Fatal(err)
	}
	if rows := strings.Count(out.String(), "\n"); rows > 23 {
		t.Errorf("it has %d rows:\n%s", rows, &out)
	}
	for text := range strings.Lines(out.String()) {
		if n := utf8.RuneCountInString(strings.TrimSuffix(text, "\n")); n > 80 {
			t.Errorf("a row has %d columns: %s", n, text)
		}
	}
	words := strings.FieldsFunc(out.String(), func(r rune) bool { return r == ' ' || r == ',' || r == '\n' })
	for _, c := range rootCommand().Commands() {
		if !c.Hidden && c.GroupID != "" && !slices.Contains(words, c.Name()) {
			t.Errorf("kernos %s isn't in\n%s", c.Name(), &out)
		}
	}
}

// A word that stands for a command runs one, and is none itself: otherwise help and completion would have two names for it.
func TestWordsStandForCommands(t *testing.T) {
	root := rootCommand()
	definitions, err := daemon.Definitions()
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range line.Words {
		if c, _, err := root.Find([]string{w.Word}); err == nil && c != root {
			t.Errorf("%s is a command", w.Word)
		}
		if (w.Runs == nil) == (w.Means == "") {
			t.Errorf("%s either runs something or is explained", w.Word)
		}
		if w.Runs == nil || strings.HasPrefix(w.Runs[0], "-") {
			continue
		}
		_, method := definitions.LookupMethod(strings.Join(w.Runs, "_"))
		if c, _, err := root.Find(w.Runs); !method && (err != nil || c == root) {
			t.Errorf("%s stands for %q, which is neither a command nor a method of a module", w.Word, w.Runs)
		}
	}
}
