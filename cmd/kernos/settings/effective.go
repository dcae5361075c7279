package settings

import (
	"io"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"kernos/daemon"
	"kernos/internal/secret"
	"kernos/transport/unix"
)

// A Setting is one that a daemon has.
type Setting struct {
	Name  string `json:"name"`
	Value string `json:"value"` // without credentials
	From  string `json:"from"`
}

// Where settings come from, in addition to variables and lines of the configuration file.
const (
	fromFlag    = "flag"
	fromLast    = "the last kernos serve"
	fromDefault = "default"
)

// Effective returns the settings of the daemon that was started as info has it, or of the one that a command would start if
// info is empty.
func Effective(home daemon.Home, info unix.Info) ([]Setting, error) {
	c := &cobra.Command{}
	c.SetErr(io.Discard)
	s := AddServeFlags(c)
	args := info.Args
	if len(args) == 0 {
		args = []string{"--again"}
	}
	if err := c.ParseFlags(args); err != nil {
		return nil, err
	}
	from := make(map[string]string)
	c.Flags().VisitAll(func(f *pflag.Flag) {
		if f.Changed {
			from[f.Name] = fromFlag
		}
	})
	environment := func(name string) string {
		for _, v := range info.Env {
			if value, ok := strings.CutPrefix(v, name+"="); ok && !s.Again {
				return value
			}
		}
		return ""
	}
	if s.Again {
		last, err := recall(home)
		if err == nil && last != nil {
			err = last.complete(c.Flags(), memoryFile(home))
		}
		if err != nil {
			return nil, err
		}
	}
	_, sources, err := complete(c, environment)
	if err != nil {
		return nil, err
	}
	member, err := completeMember(home, c.Flags(), func(name string) bool { return from[name] != "" || sources[name] != "" })
	if err != nil {
		return nil, err
	}
	for _, name := range member {
		sources[name] = home.Membership()
	}
	var all []Setting
	for _, name := range names {
		f := c.Flags().Lookup(name)
		if f == nil {
			continue
		}
		one := Setting{Name: name, Value: f.Value.String(), From: filepath.Base(sources[name])}
		if list, ok := f.Value.(pflag.SliceValue); ok {
			one.Value = strings.Join(list.GetSlice(), ",")
		}
		switch {
		case from[name] != "":
			one.From = from[name]
		case f.Changed:
			one.From = fromLast
		case sources[name] == "":
			one.From = fromDefault
			if one.Value == "" {
				one.Value = strings.TrimPrefix(f.DefValue, "[]") // an empty list
			}
		}
		one.Value = withoutCredentials(one.Value)
		all = append(all, one)
	}
	return all, nil
}

// withoutCredentials returns a value without the credentials that a person may have written into it: as members of JSON, or in
// a URL.
func withoutCredentials(value string) string {
	if strings.HasPrefix(value, "{") {
		shown, _ := secret.Strictness{Place: secret.Request}.Redact([]byte(value))
		return string(shown)
	}
	parts := strings.Split(value, ",")
	for i, part := range parts {
		if at := strings.Index(part, "://"); at >= 0 {
			before := strings.LastIndexByte(part[:at], '=') + 1 // PATH=URL
			parts[i] = part[:before] + secret.URL(part[before:])
		}
	}
	return strings.Join(parts, ",")
}
