package server

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"

	"go.yaml.in/yaml/v3"

	"kernos/client"
	"kernos/cmd/kernos/settings"
	"kernos/cmd/kernos/terminal"
	"kernos/daemon"
	"kernos/internal/durable"
	"kernos/internal/exit"
	"kernos/internal/nearest"
)

// LocalContext is the name of the daemon of this user, which needs no settings.
const LocalContext = "local"

// Contexts are the servers that a user has given names to, in one home.
type Contexts struct {
	Current string          `yaml:"current,omitempty"`
	Servers map[string]Item `yaml:"servers,omitempty"`

	home daemon.Home
}

func (c *Contexts) path() string { return filepath.Join(c.home.Dir, contextsFile) }

// missing reports whether a file isn't there. A home that can't be used is reported where it is needed.
func missing(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
}

// An Item is what is known about the server of a context.
type Item struct {
	URL       string `yaml:"url"`
	Token     string `yaml:"token,omitempty"`
	TokenFile string `yaml:"token-file,omitempty"`
	CAFile    string `yaml:"ca-file,omitempty"`
}

// UserTemplates returns the directory of the user's templates for content types; "" if there is
// none.
func UserTemplates() string { return userFile("templates") }

// userFile returns the path of a file among the settings of a user for all kernels; "" if there
// is no directory for them.
func userFile(name string) string {
	base, err := os.UserConfigDir()
	if err != nil {
		return ""
	}
	return filepath.Join(base, "kernos", name)
}

const contextsFile = "contexts.yaml"

// ReadContexts reads the contexts of the home that the environment names. Without a file there are
// none.
func ReadContexts() (*Contexts, error) {
	home, err := settings.Home()
	if err != nil {
		return nil, err
	}
	c := &Contexts{home: home, Servers: make(map[string]Item)}
	path := c.path()
	text, err := os.ReadFile(path)
	if missing(err) && os.Getenv("KERNOS_HOME") == "" {
		// Up to version 0.6.0 the contexts of all homes were in one file.
		if old := userFile(contextsFile); old != "" {
			path = old
			text, err = os.ReadFile(path)
		}
	}
	if missing(err) {
		return c, nil
	}
	if err != nil {
		return nil, err
	}
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	if err := d.Decode(c); err != nil {
		return nil, fmt.Errorf("%s can't be read; correct it, or remove it to start again: %w", path, err)
	}
	if c.Servers == nil {
		c.Servers = make(map[string]Item)
	}
	return c, nil
}

// ChangeContexts changes the contexts of the user, unless change returns an error.
func ChangeContexts(change func(*Contexts) error) error {
	c, err := ReadContexts()
	if err != nil {
		return exit.Wrap(err)
	}
	if err := change(c); err != nil {
		return err
	}
	return exit.Wrap(c.save())
}

// save writes the file, which may hold tokens, so that only its owner can read it, and so that
// no process ever reads half of it.
func (c *Contexts) save() error {
	text, err := yaml.Marshal(c)
	if err != nil {
		return err
	}
	if err := settings.Explain(c.home.Make()); err != nil {
		return err
	}
	return durable.WriteFile(c.path(), text)
}

// CurrentName returns the name of the context for commands that name none.
func (c *Contexts) CurrentName() string {
	return cmp.Or(os.Getenv("KERNOS_CONTEXT"), c.Current, LocalContext)
}

// Names lists the contexts.
func (c *Contexts) Names() []string {
	return append([]string{LocalContext}, slices.Sorted(maps.Keys(c.Servers))...)
}

// Add gives a server a name.
func (c *Contexts) Add(name string, item Item) error {
	if !validName().MatchString(name) || name == LocalContext {
		return fmt.Errorf("%q can't be the name of a context; use letters, digits, dots, hyphens and underscores, and not %q", name, LocalContext)
	}
	if err := item.check(); err != nil {
		return err
	}
	if known, exists := c.Servers[name]; exists {
		return fmt.Errorf("the context %s exists already, for %s; kernos context set %s --url URL changes it, kernos context remove %s removes it", name, known.URL, name, name)
	}
	c.Servers[name] = item
	return nil
}

// Set changes what is known about a server: what the flags give, and nothing else.
func (c *Contexts) Set(name string, changes Item, given func(flag string) bool) error {
	item, ok := c.Servers[name]
	if !ok {
		return c.unknown(name)
	}
	for _, f := range []struct {
		flag      string
		from, to  *string
		forgotten *string // the other way to give the same
	}{
		{"url", &changes.URL, &item.URL, nil},
		{"token", &changes.Token, &item.Token, &item.TokenFile},
		{"token-file", &changes.TokenFile, &item.TokenFile, &item.Token},
		{"ca-file", &changes.CAFile, &item.CAFile, nil},
	} {
		if !given(f.flag) {
			continue
		}
		*f.to = *f.from
		if f.forgotten != nil && *f.from != "" {
			*f.forgotten = ""
		}
	}
	if given("token") && given("token-file") {
		return errTwoTokens
	}
	if err := item.check(); err != nil {
		return err
	}
	c.Servers[name] = item
	return nil
}

// Use makes a context the current one.
func (c *Contexts) Use(name string) error {
	if !slices.Contains(c.Names(), name) {
		return c.unknown(name)
	}
	c.Current = name
	return nil
}

// Remove forgets a context.
func (c *Contexts) Remove(name string) error {
	if _, ok := c.Servers[name]; !ok {
		return c.unknown(name)
	}
	delete(c.Servers, name)
	if c.Current == name {
		c.Current = ""
	}
	return nil
}

// A Listed is a context for programs, without its token.
type Listed struct {
	Name    string `json:"name"`
	URL     string `json:"url,omitempty"`
	CAFile  string `json:"caFile,omitempty"`
	Current bool   `json:"current,omitzero"`
}

// List lists the contexts.
func (c *Contexts) List() (list []Listed) {
	for _, name := range c.Names() {
		known := c.Servers[name]
		list = append(list, Listed{name, known.URL, known.CAFile, name == c.CurrentName()})
	}
	return list
}

// ShowContexts writes contexts as a table.
func ShowContexts(list []Listed, s *terminal.Screen) error {
	var rows [][]string
	for _, l := range list {
		mark := " "
		if l.Current {
			mark = "*"
		}
		if l.Name == LocalContext {
			l.URL = "the daemon of this user"
		}
		if l.CAFile != "" {
			l.URL += "  (signed by those in " + l.CAFile + ")"
		}
		rows = append(rows, []string{mark + " " + l.Name, l.URL})
	}
	return s.Table(nil, rows)
}

// target finds where the server of a context is.
func (c *Contexts) target(name string) (client.Target, error) {
	item, ok := c.Servers[name]
	if !ok {
		return client.Target{}, c.unknown(name)
	}
	t := client.Target{URL: item.URL, Token: item.Token, CAFile: item.CAFile}
	if item.TokenFile != "" {
		text, err := os.ReadFile(item.TokenFile)
		if err != nil {
			return t, fmt.Errorf("the token of context %q can't be read: %w", name, err)
		}
		t.Token = strings.TrimSpace(string(text))
	}
	if err := t.Check(); err != nil {
		return t, fmt.Errorf("context %q: %w", name, err)
	}
	return t, nil
}

// unknown returns the error for a name that no context has.
func (c *Contexts) unknown(name string) error {
	if name == LocalContext {
		return fmt.Errorf("%s is the daemon of this user, and always there; its settings are those of kernos serve", LocalContext)
	}
	hint := cmp.Or(nearest.Hint(name, c.Names()), "kernos context list shows them")
	return fmt.Errorf("there is no context %q; %s", name, hint)
}

// validName matches the names that contexts can have.
var validName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,62}$`) })

// errTwoTokens is the error for two tokens of one server.
var errTwoTokens = errors.New("--token and --token-file both give the token: give one of them")

// check reports what is wrong with an item before it is saved, and makes its paths absolute.
func (i *Item) check() (err error) {
	if i.Token != "" && i.TokenFile != "" {
		return errTwoTokens
	}
	for _, path := range []*string{&i.TokenFile, &i.CAFile} {
		if *path == "" {
			continue
		}
		if *path, err = filepath.Abs(*path); err != nil {
			return exit.Wrap(err)
		}
	}
	return client.Target{URL: i.URL, CAFile: i.CAFile}.Check()
}
