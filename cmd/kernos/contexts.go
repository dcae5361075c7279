package main

import (
	"bytes"
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

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"

	"kernos/client"
	"kernos/internal/nearest"
)

// localContext is the daemon of this user, which needs no settings.
const localContext = "local"

// contexts are the servers that a user has given names to.
type contexts struct {
	Current string                 `yaml:"current,omitempty"`
	Servers map[string]contextItem `yaml:"servers,omitempty"`

	path string
}

type contextItem struct {
	URL       string `yaml:"url"`
	Token     string `yaml:"token,omitempty"`
	TokenFile string `yaml:"token-file,omitempty"`
}

// userConfig is the directory of what a user has set up, for all kernels.
func userConfig() (string, error) {
	base, err := os.UserConfigDir()
	if err != nil {
		return "", fmt.Errorf("no directory for settings: set XDG_CONFIG_HOME: %w", err)
	}
	return filepath.Join(base, "kernos"), nil
}

func readContexts() (*contexts, error) {
	dir, err := userConfig()
	if err != nil {
		return nil, err
	}
	c := &contexts{path: filepath.Join(dir, "contexts.yaml"), Servers: make(map[string]contextItem)}
	text, err := os.ReadFile(c.path)
	if errors.Is(err, fs.ErrNotExist) {
		return c, nil
	}
	if err != nil {
		return nil, err
	}
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	if err := d.Decode(c); err != nil {
		return nil, fmt.Errorf("%s can't be read; mend it, or remove it to begin anew: %w", c.path, err)
	}
	if c.Servers == nil {
		c.Servers = make(map[string]contextItem)
	}
	return c, nil
}

// save writes the file, which may hold tokens, so that only its owner can read it, and
// nobody ever sees half of it.
func (c *contexts) save() error {
	text, err := yaml.Marshal(c)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(c.path), 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(c.path), ".contexts-*") // of mode 0600
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = os.Rename(f.Name(), c.path)
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
	return err
}

// current is the name of the context that is meant if nobody says another.
func (c *contexts) current() string {
	if name := os.Getenv("KERNOS_CONTEXT"); name != "" {
		return name
	}
	if c.Current != "" {
		return c.Current
	}
	return localContext
}

// names lists the contexts.
func (c *contexts) names() []string {
	return append([]string{localContext}, slices.Sorted(maps.Keys(c.Servers))...)
}

// target finds where the server of a context is.
func (c *contexts) target(name string) (client.Target, error) {
	item, ok := c.Servers[name]
	if !ok {
		hint := nearest.Hint(name, c.names())
		if hint == "" {
			hint = "kernos context list shows them"
		}
		return client.Target{}, fmt.Errorf("there is no context %q; %s", name, hint)
	}
	t := client.Target{URL: item.URL, Token: item.Token}
	if item.TokenFile != "" {
		text, err := os.ReadFile(item.TokenFile)
		if err != nil {
			return t, fmt.Errorf("the token of context %q can't be read: %w", name, err)
		}
		t.Token = strings.TrimSpace(string(text))
	}
	return t, nil
}

var contextName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,62}$`) })

func contextCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "context",
		Short: "Name the servers that you call",
		Long: `Name the servers that you call. One of them is the current one, which kernos call,
kernos MODULE METHOD and kernos doctor use unless --context, --server or the variable
KERNOS_CONTEXT says another. The context local is always there: the daemon of this
user, which is started if it is not running.`,
		Example: `  kernos context add office wss://kernos.example.org/ --token-file ~/office.token
  kernos context use office
  kernos memory get --key notes/1 --context local`,
		Args: noArguments,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(contextAddCommand(), contextUseCommand(), contextListCommand(), contextRemoveCommand())
	return c
}

func contextAddCommand() *cobra.Command {
	var item contextItem
	c := &cobra.Command{
		Use:   "add NAME URL",
		Short: "Give a server a name",
		Args:  exactly(2, "NAME URL"),
		RunE: func(c *cobra.Command, args []string) error {
			name := args[0]
			if !contextName().MatchString(name) || name == localContext {
				return fmt.Errorf("%q can't be the name of a context; use letters, digits, dots, hyphens and underscores, and not %q", name, localContext)
			}
			item.URL = args[1]
			if err := (client.Target{URL: item.URL}).Check(); err != nil {
				return err
			}
			if item.Token != "" && item.TokenFile != "" {
				return errors.New("--token and --token-file both give the token: give one of them")
			}
			if item.TokenFile != "" {
				var err error
				if item.TokenFile, err = filepath.Abs(item.TokenFile); err != nil {
					return failed(err)
				}
			}
			all, err := readContexts()
			if err != nil {
				return failed(err)
			}
			all.Servers[name] = item
			return failed(all.save())
		},
	}
	c.Flags().StringVar(&item.Token, "token", "", "the server's `token`; others who use this machine may see it here, so a file is better")
	c.Flags().StringVar(&item.TokenFile, "token-file", "", "a `file` that has the server's token")
	return c
}

func contextUseCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "use NAME",
		Short: "Make a context the current one",
		Args:  exactly(1, "NAME"),
		RunE: func(c *cobra.Command, args []string) error {
			all, err := readContexts()
			if err != nil {
				return failed(err)
			}
			if args[0] != localContext {
				if _, ok := all.Servers[args[0]]; !ok {
					_, err := all.target(args[0])
					return err
				}
			}
			all.Current = args[0]
			return failed(all.save())
		},
		ValidArgsFunction: completeContexts,
	}
}

func contextListCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the contexts",
		Args:  noArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			all, err := readContexts()
			if err != nil {
				return failed(err)
			}
			width := 0
			for _, name := range all.names() {
				width = max(width, len(name))
			}
			for _, name := range all.names() {
				mark, url := " ", all.Servers[name].URL
				if name == all.current() {
					mark = "*"
				}
				if name == localContext {
					url = "the daemon of this user"
				}
				if _, err := fmt.Fprintf(c.OutOrStdout(), "%s %-*s  %s\n", mark, width, name, url); err != nil {
					return failed(err)
				}
			}
			return nil
		},
	}
}

func contextRemoveCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "remove NAME",
		Short: "Forget a context",
		Args:  exactly(1, "NAME"),
		RunE: func(c *cobra.Command, args []string) error {
			all, err := readContexts()
			if err != nil {
				return failed(err)
			}
			if _, ok := all.Servers[args[0]]; !ok {
				_, err := all.target(args[0])
				return err
			}
			delete(all.Servers, args[0])
			if all.Current == args[0] {
				all.Current = ""
			}
			return failed(all.save())
		},
		ValidArgsFunction: completeContexts,
	}
}

func completeContexts(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	all, err := readContexts()
	if err != nil || len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return all.names(), cobra.ShellCompDirectiveNoFileComp
}

// exactly wants this many arguments.
func exactly(n int, what string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) != n {
			return fmt.Errorf("%s takes %s; see %s --help", c.CommandPath(), what, c.CommandPath())
		}
		return nil
	}
}
