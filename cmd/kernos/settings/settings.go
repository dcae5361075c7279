// Package settings reads the settings of kernos: from flags, then from KERNOS_* variables, then
// from config.yaml in the home directory. It binds the flags of a kernel and of a daemon to
// [daemon.Options], and finds the home that the environment names.
package settings

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"

	"kernos/internal/nearest"
	"kernos/internal/owned"
	"kernos/internal/visible"
)

// names are the flags that can also be given by a variable and in the configuration file. A
// command has some of them.
var names = slices.Sorted(slices.Values(slices.Concat(kept, ofMember, forOneRun, weakening)))

// lists are the settings that can have several values: as a list in the configuration file, and
// with commas between the values in a variable.
var lists = []string{"allow-host", "allow-origin", "cluster", "cluster-peers", "fetch-allow", "fetch-deny", "mount"}

// paths are the settings that name a file or a directory. A relative one in the configuration
// file is relative to that file, and in a variable to the working directory of the command.
var paths = []string{"auth-key", "cluster-ca", "cluster-cert", "cluster-credentials", "cluster-key", "cluster-secret", "directory", "tls-cert", "tls-key", "token-file"}

// A Variable is one of the environment that is not a setting of the daemon.
type Variable struct{ Name, Meaning string }

// OtherVariables are those that commands use, and that handlers get.
var OtherVariables = []Variable{
	{"KERNOS_CA_FILE", "with `--server URL`: a file with the certificate, in PEM, that the server's is signed by"},
	{"KERNOS_CONTEXT", "the context whose server commands use, as `--context` does; see `kernos context`"},
	{"KERNOS_HOME", "the directory with the state, the token and config.yaml; by default `kernos` in `$XDG_DATA_HOME`, or `~/.local/share/kernos`"},
	{"KERNOS_MODEL_SERVERS", "where `kernos chat` and `kernos model detect` look for servers of language models, as `NAME=HOST:PORT` with commas; `none` means nowhere"},
	{"KERNOS_ORIGIN", "the origin of the kernel; each has its own state in the home"},
	{"KERNOS_REQUEST_CORRELATION", "for a program of `kernos handle`: the workflow of the request"},
	{"KERNOS_REQUEST_ID", "for a program of `kernos handle`: the id of the request"},
	{"KERNOS_REQUEST_TYPE", "for a program of `kernos handle`: the type of the request"},
	{"KERNOS_SOCKET", "the socket that the libraries connect to, in place of starting `kernos pipe`"},
	{"KERNOS_TOKEN", "the token for a server: with `--server URL`, and for the libraries"},
}

// VariableOf returns the name of a setting in the environment.
func VariableOf(name string) string {
	return "KERNOS_" + strings.ToUpper(strings.ReplaceAll(name, "-", "_"))
}

// WarnOfVariables warns of variables that look like settings and aren't.
func WarnOfVariables(people io.Writer) {
	const prefix = "KERNOS_"
	var known []string
	for _, v := range OtherVariables {
		known = append(known, v.Name)
	}
	for _, name := range names {
		known = append(known, VariableOf(name))
	}
	ends := make([]string, len(known)) // without the prefix, by which all are alike
	for i, name := range known {
		ends[i] = strings.TrimPrefix(name, prefix)
	}
	environment := os.Environ()
	slices.Sort(environment)
	for _, text := range environment {
		name, value, _ := strings.Cut(text, "=")
		end, ours := strings.CutPrefix(name, prefix)
		forTests := strings.HasPrefix(end, "TEST_") // as make test sets them for what it runs
		if !ours || value == "" || forTests || slices.Contains(known, name) {
			continue
		}
		hint := "kernos serve --help lists the settings"
		if near := nearest.Names(end, ends); len(near) > 0 {
			for i, end := range near {
				near[i] = prefix + end
			}
			hint = nearest.Ask(near)
		}
		fmt.Fprintf(people, "kernos: %s is not a setting, and is ignored: %s\n", visible.Text(name), hint)
	}
}

// Complete sets the flags of a command that were not given from the environment, or else from
// the configuration file.
func Complete(c *cobra.Command) error {
	WarnOfVariables(c.ErrOrStderr())
	_, _, err := complete(c, os.Getenv)
	return err
}

// complete is Complete with the variables of an environment. It returns the values that were given by flags and variables, for
// a process in any directory, and where the settings come from that are no flags: variables, and lines of the file.
func complete(c *cobra.Command, environment func(string) string) (given map[string][]string, sources map[string]string, err error) {
	given, sources = make(map[string][]string), make(map[string]string)
	give := func(name string, values []string) {
		values = slices.Clone(values)
		if slices.Contains(paths, name) && values[0] != "" {
			if path, err := filepath.Abs(values[0]); err == nil {
				values[0] = path
			}
		}
		given[name] = values
	}
	home, err := homeDirectory()
	if err != nil {
		return nil, nil, err
	}
	file, err := readConfig(filepath.Join(home, "config.yaml"))
	if err != nil {
		return nil, nil, err
	}
	for _, name := range names {
		flag := c.Flags().Lookup(name)
		switch {
		case flag == nil:
			continue
		case flag.Changed:
			if list, ok := flag.Value.(pflag.SliceValue); ok {
				give(name, list.GetSlice())
			} else {
				give(name, []string{flag.Value.String()})
			}
			continue
		}
		values, source := []string{environment(VariableOf(name))}, VariableOf(name)
		if values[0] == "" {
			line, ok := file[name]
			if !ok {
				continue
			}
			values, source = line.values, line.place+": "+name
			if slices.Contains(paths, name) && values[0] != "" && !filepath.IsAbs(values[0]) {
				values[0] = filepath.Join(home, values[0]) // the daemon may be started in any directory
			}
		} else {
			if slices.Contains(lists, name) {
				values = strings.Split(values[0], ",")
			}
			give(name, values)
		}
		sources[name] = strings.TrimSuffix(source, ": "+name)
		for _, text := range values {
			if err := flag.Value.Set(text); err != nil {
				return nil, nil, InvalidFlag(source, flag, text, err)
			}
		}
	}
	return given, sources, nil
}

// A configLine is one setting in the configuration file.
type configLine struct {
	values []string // one value, except for lists
	place  string   // file and line
}

// readConfig reads the configuration file, a mapping of settings to values. A missing file is
// an empty one.
func readConfig(path string) (map[string]configLine, error) {
	text, err := readOwned(path)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return nil, nil // a directory that can't be used is reported when it is needed
	}
	if err != nil {
		return nil, err
	}
	var document yaml.Node
	if err := yaml.Unmarshal(text, &document); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if len(document.Content) == 0 || document.Content[0].Tag == "!!null" {
		return nil, nil
	}
	root := document.Content[0]
	if root.Kind != yaml.MappingNode {
		return nil, fmt.Errorf("%s:%d: expected settings such as idle: 10m, one per line", path, root.Line)
	}
	settings := make(map[string]configLine)
	for i := 0; i+1 < len(root.Content); i += 2 {
		key, value := root.Content[i], root.Content[i+1]
		name, place := key.Value, fmt.Sprintf("%s:%d", path, key.Line)
		_, twice := settings[name]
		switch {
		case !slices.Contains(names, name):
			hint := cmp.Or(nearest.Hint(name, names), "the settings are "+strings.Join(names, ", "))
			return nil, fmt.Errorf("%s: the setting %q does not exist: %s", place, name, hint)
		case twice:
			return nil, fmt.Errorf("%s: %s is set twice; remove one", place, name)
		}
		line := configLine{place: place}
		if name == "models" || name == "embeddings" && value.Kind == yaml.MappingNode {
			text, err := jsonOf(value)
			if err != nil {
				return nil, fmt.Errorf("%s: %s: %w", place, name, err)
			}
			line.values = []string{text}
			settings[name] = line
			continue
		}
		list := []*yaml.Node{value}
		if value.Kind == yaml.SequenceNode && slices.Contains(lists, name) {
			list = value.Content
		}
		for _, one := range list {
			if one.Kind != yaml.ScalarNode {
				return nil, fmt.Errorf("%s: %s must have one value", place, name)
			}
			line.values = append(line.values, one.Value)
		}
		settings[name] = line
	}
	return settings, nil
}

// jsonOf returns a value of the configuration file as JSON.
func jsonOf(value *yaml.Node) (string, error) {
	var decoded any
	if err := value.Decode(&decoded); err != nil {
		return "", err
	}
	text, err := json.Marshal(decoded)
	return string(text), err
}

// readOwned reads a file that only its user can change. It checks the file that it has opened,
// and the directory that names it.
func readOwned(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if err := owned.Check(info); err != nil {
		return nil, fmt.Errorf("the settings in %s are not obeyed: the file %w", path, err)
	}
	dir, err := os.Stat(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	if err := owned.Check(dir); err != nil {
		return nil, fmt.Errorf("the settings in %s are not obeyed: the directory %w", path, err)
	}
	return io.ReadAll(f)
}

// flagValues are the values of flags whose types come with a library, in words.
var flagValues = map[string]string{
	"int": "a whole number", "intSlice": "a whole number", "uint64": "a whole number, at least 0", "bool": "true or false",
}

// A FlagError is an error of a flag's value that is complete: it names the flag.
type FlagError struct{ text string }

// FlagErrorf returns a FlagError with a formatted text.
func FlagErrorf(format string, args ...any) *FlagError {
	return &FlagError{fmt.Sprintf(format, args...)}
}

func (e *FlagError) Error() string { return e.text }

// InvalidFlag returns the error for a value that a flag does not take. For the types of kernos,
// cause describes what they take; a FlagError is returned as it is.
func InvalidFlag(where string, f *pflag.Flag, value string, cause error) error {
	if _, ok := errors.AsType[*FlagError](cause); ok {
		return cause
	}
	if want := flagValues[f.Value.Type()]; want != "" {
		return fmt.Errorf("%s: expected %s, got %q", where, want, value)
	}
	return fmt.Errorf("%s: %w", where, cause)
}
