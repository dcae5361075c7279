package main

import (
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
	"go.yaml.in/yaml/v3"

	"kernos/internal/nearest"
	"kernos/internal/visible"
)

// settingNames are the flags that a variable and a line of the configuration file can say
// too. A command has some of them.
var settingNames = []string{
	"addr", "allow-host", "allow-origin", "auth-key", "development", "directory", "execute", "fetch-allow", "fetch-deny",
	"fetch-only", "fetch-retries", "frame-rate", "grace", "idempotency-ttl", "idle", "in-flight", "in-flight-all", "insecure-listen-without-signature",
	"insecure-listen-without-tls", "insecure-listen-without-token", "journal-age", "journal-size", "line-time", "max-body", "max-connections", "mount",
	"no-http", "no-token", "request-rate", "require-agent", "seal-key", "stall", "timeout", "tls-cert", "tls-key", "token-file",
}

// listSettings are those that can be said more than once: a list in the configuration file,
// and with commas between the values in a variable.
var listSettings = []string{"allow-host", "allow-origin", "fetch-allow", "fetch-deny", "mount"}

// pathSettings are those that name a file or a directory. In the configuration file one may be relative to
// it, and in a variable to where the command runs.
var pathSettings = []string{"auth-key", "directory", "tls-cert", "tls-key", "token-file"}

// otherVariables are those that are no settings: what commands ask for themselves, and the
// socket, for programs that serve syscalls.
var otherVariables = []string{"KERNOS_CA_FILE", "KERNOS_CONTEXT", "KERNOS_HOME", "KERNOS_ORIGIN", "KERNOS_SOCKET", "KERNOS_TOKEN"}

// variable is the name of a setting in the environment.
func variable(name string) string {
	return "KERNOS_" + strings.ToUpper(strings.ReplaceAll(name, "-", "_"))
}

// warnOfVariables tells people of the variables that look like settings and are none.
func warnOfVariables(people io.Writer) {
	const prefix = "KERNOS_"
	known := slices.Clone(otherVariables)
	for _, name := range settingNames {
		known = append(known, variable(name))
	}
	ends := make([]string, len(known)) // what they begin with alike says nothing about how near they are
	for i, name := range known {
		ends[i] = strings.TrimPrefix(name, prefix)
	}
	environment := os.Environ()
	slices.Sort(environment)
	for _, text := range environment {
		name, value, _ := strings.Cut(text, "=")
		end, ours := strings.CutPrefix(name, prefix)
		if !ours || value == "" || slices.Contains(known, name) {
			continue
		}
		hint := "kernos serve --help lists the settings"
		if near := nearest.Names(end, ends); len(near) > 0 {
			hint = "did you mean " + prefix + strings.Join(near, " or "+prefix) + "?"
		}
		fmt.Fprintf(people, "kernos: %s says nothing to kernos, and is ignored: %s\n", visible.Text(name), hint)
	}
}

// completeSettings takes what no flag says from the environment, and what that does not say
// from the configuration file.
func completeSettings(c *cobra.Command) error {
	warnOfVariables(c.ErrOrStderr())
	home, err := homeDirectory()
	if err != nil {
		return err
	}
	file, err := readConfig(filepath.Join(home, "config.yaml"))
	if err != nil {
		return err
	}
	for _, name := range settingNames {
		flag := c.Flags().Lookup(name)
		if flag == nil || flag.Changed {
			continue
		}
		values, source := []string{os.Getenv(variable(name))}, variable(name)
		if values[0] == "" {
			line, ok := file[name]
			if !ok {
				continue
			}
			values, source = line.values, line.place+": "+name
			if slices.Contains(pathSettings, name) && values[0] != "" && !filepath.IsAbs(values[0]) {
				values[0] = filepath.Join(home, values[0]) // the daemon may begin anywhere
			}
		} else if slices.Contains(listSettings, name) {
			values = strings.Split(values[0], ",")
		}
		for _, text := range values {
			if err := flag.Value.Set(text); err != nil {
				return invalidFlag(source, flag, text, fmt.Errorf("%s: %w", source, err))
			}
		}
	}
	return nil
}

// A configLine is one setting in the configuration file.
type configLine struct {
	values []string // one, but for settings that are lists
	place  string   // file and line
}

// readConfig reads the configuration file, a mapping of settings to values. No file is an
// empty one.
func readConfig(path string) (map[string]configLine, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return nil, nil // what is wrong with the directory is said by whoever needs it
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
		return nil, fmt.Errorf("%s:%d: expected settings such as idle: 10m, one a line", path, root.Line)
	}
	settings := make(map[string]configLine)
	for i := 0; i+1 < len(root.Content); i += 2 {
		key, value := root.Content[i], root.Content[i+1]
		name, place := key.Value, fmt.Sprintf("%s:%d", path, key.Line)
		_, twice := settings[name]
		switch {
		case !slices.Contains(settingNames, name):
			hint := nearest.Hint(name, settingNames)
			if hint == "" {
				hint = "there are " + strings.Join(settingNames, ", ")
			}
			return nil, fmt.Errorf("%s: there is no setting %q: %s", place, name, hint)
		case twice:
			return nil, fmt.Errorf("%s: %s is there twice; leave one out", place, name)
		}
		line := configLine{place: place}
		list := []*yaml.Node{value}
		if value.Kind == yaml.SequenceNode && slices.Contains(listSettings, name) {
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
