package docs_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/charmbracelet/x/ansi"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"kernos/cmd/kernos/settings"
	"kernos/transport/unix"
)

// serveFlags returns the flags of kernos serve.
func serveFlags() *pflag.FlagSet {
	c := &cobra.Command{}
	settings.AddServeFlags(c)
	return c.Flags()
}

// A setting is one of kernos serve.
type setting struct {
	flag    *pflag.Flag
	value   string // what stands for its value: FILE; "" for a flag that is on or off
	meaning string
	list    bool
}

// describe reads the flag of a setting.
func describe(t *testing.T, flags *pflag.FlagSet, name string) setting {
	t.Helper()
	f := flags.Lookup(name)
	if f == nil {
		t.Fatalf("%s is no flag of kernos serve", name)
	}
	value, usage := pflag.UnquoteUsage(f)
	usage = strings.TrimSuffix(usage, " ("+settings.VariableOf(name)+")")
	usage = strings.TrimSuffix(usage, "; can be repeated")
	_, list := f.Value.(pflag.SliceValue)
	return setting{f, value, usage, list}
}

// initial returns the default as people write it; "" if there is none.
func (s *setting) initial() string {
	if s.list {
		return strings.Trim(s.flag.DefValue, "[]")
	}
	return short(s.flag.DefValue)
}

// short returns a time without units of which there are none: 24h0m0s is 24h.
func short(text string) string {
	if cut, ok := strings.CutSuffix(text, "m0s"); ok {
		text = cut + "m"
	}
	if cut, ok := strings.CutSuffix(text, "h0m"); ok {
		text = cut + "h"
	}
	return text
}

func settingsPage(t *testing.T) string {
	t.Helper()
	flags := serveFlags()
	p := newSheet("Settings")
	p.paragraph(`A setting of the daemon is a flag of ` + "`kernos serve`" + `, or a variable, or a line of config.yaml in the home directory
(` + "`$KERNOS_HOME`" + `, by default ` + "`~/.local/share/kernos`" + `). A flag comes before a variable, and a variable before the file. The name in config.yaml is
the flag's name: ` + "`--journal-age 30d`, `KERNOS_JOURNAL_AGE=30d` and `journal-age: 30d`" + ` are the same. A setting with several values is a flag that
is repeated, a variable with commas, and a list in config.yaml. [config.yaml](config.yaml) has all of them with their defaults.

` + "`kernos config`" + ` shows the settings that the daemon has, and where each comes from. A daemon that a command starts has the settings of the last
` + "`kernos serve`" + `, without those for one run and without those that open a door; config.yaml is for what is to stay. If a line of
config.yaml seems to have no effect, ` + "`kernos config`" + ` names what comes before it; ` + "`kernos serve`" + ` without flags forgets those of the last one.`)
	for _, g := range settings.ServeGroups {
		p.paragraph("## %s", g.Title)
		var rows [][]string
		for _, name := range g.Names {
			s := describe(t, flags, name)
			flag := "--" + name
			if s.value != "" {
				flag += " " + strings.ToUpper(s.value)
			}
			several := ""
			if s.list {
				several = " Several values."
			}
			initial := s.initial()
			if initial != "" {
				initial = "`" + initial + "`"
			}
			rows = append(rows, []string{"`" + flag + "`", "`" + settings.VariableOf(name) + "`", initial, sentence(s.meaning) + several})
		}
		p.table([]string{"flag, and name in config.yaml", "variable", "default", ""}, rows)
	}
	p.paragraph("## Other variables")
	var rows [][]string
	for _, v := range settings.OtherVariables {
		rows = append(rows, []string{"`" + v.Name + "`", sentence(v.Meaning)})
	}
	p.table([]string{"variable", ""}, rows)
	return p.String()
}

// configFile returns a configuration file with each setting behind a #, as it is by default.
func configFile(t *testing.T) string {
	t.Helper()
	flags := serveFlags()
	var b strings.Builder
	b.WriteString("# config.yaml: the settings of kernos serve, with their defaults. Copy it into the home directory, and\n" +
		"# remove the # of a line to change it. Paths are relative to this file. Only its owner may write it.\n")
	for _, g := range settings.ServeGroups {
		b.WriteString("\n# " + strings.ToUpper(g.Title) + "\n")
		for _, name := range g.Names {
			s := describe(t, flags, name)
			for l := range strings.Lines(ansi.Wordwrap(sentence(s.meaning), 98, " ")) {
				b.WriteString("\n# " + strings.TrimSpace(l))
			}
			value := s.initial()
			switch {
			case s.list:
				value = "[" + value + "]"
			case name == "models":
				value = "{}"
			case value == "":
				value = `""`
			}
			fmt.Fprintf(&b, "\n#%s: %s\n", name, value)
		}
	}
	return b.String()
}

// TestTheConfigurationFileOfTheReferenceIsRead: the file has no effect as it is, and none with all its settings either, since
// they are the defaults.
func TestTheConfigurationFileOfTheReferenceIsRead(t *testing.T) {
	text, err := os.ReadFile("reference/config.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range os.Environ() {
		if name, _, _ := strings.Cut(v, "="); strings.HasPrefix(name, "KERNOS_") {
			t.Setenv(name, "")
		}
	}
	effective := func(config string) (shown []string) {
		t.Helper()
		t.Setenv("KERNOS_HOME", t.TempDir())
		if err := os.WriteFile(filepath.Join(os.Getenv("KERNOS_HOME"), "config.yaml"), []byte(config), 0o600); err != nil {
			t.Fatal(err)
		}
		home, err := settings.Home()
		if err != nil {
			t.Fatal(err)
		}
		all, err := settings.Effective(home, unix.Info{})
		if err != nil {
			t.Fatal(err)
		}
		if err := settings.Check(); err != nil {
			t.Fatal(err)
		}
		for _, s := range all {
			shown = append(shown, s.Name+"="+strings.TrimSuffix(s.Value, "{}"))
		}
		return shown
	}
	want := effective("")
	if len(want) < 40 {
		t.Fatalf("only %d settings", len(want))
	}
	if got := effective(string(text)); !slices.Equal(got, want) {
		t.Errorf("the file has an effect as it is:\n%s\n%s", got, want)
	}
	set := regexp.MustCompile(`(?m)^#([a-z])`)
	if n := len(set.FindAll(text, -1)); n != len(want) {
		t.Errorf("the file has %d settings of %d", n, len(want))
	}
	if got := effective(set.ReplaceAllString(string(text), "$1")); !slices.Equal(got, want) {
		t.Errorf("the values aren't the defaults:\n%s\n%s", got, want)
	}
	refused := strings.Replace(string(text), "#idle:", "idling:", 1)
	if err := os.WriteFile(filepath.Join(os.Getenv("KERNOS_HOME"), "config.yaml"), []byte(refused), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := settings.Check(); err == nil {
		t.Error("the file isn't read: a name that doesn't exist is taken")
	}
}
