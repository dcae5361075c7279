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
	"kernos/cmd/kernos/exit"
	"kernos/internal/durable"
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
	CAFile    string `yaml:"ca-file,omitempty"`
}

// userConfig is the directory of what a user has set up, for all kernels.
func userConfig() (string, error) {
	base, err := os.UserConfigDir()
	if err != nil {
		return "", fmt.Errorf("no directory for settings: set XDG_CONFIG_HOME: %w", err)
	}
	return filepath.Join(base, "kernos"), nil
}

// userTemplates is the directory of a user's templates for content types, "" if there is none.
func userTemplates() string {
	dir, err := userConfig()
	if err != nil {
		return ""
	}
	return filepath.Join(dir, "templates")
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
	if err := durable.MakeDir(filepath.Dir(c.path)); err != nil {
		return err
	}
	return durable.WriteFile(c.path, text)
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

// unknown is the error of a name that no context has.
func (c *contexts) unknown(name string) error {
	if name == localContext {
		return fmt.Errorf("%s is the daemon of this user, and always there; its settings are those of kernos serve", localContext)
	}
	hint := nearest.Hint(name, c.names())
	if hint == "" {
		hint = "kernos context list shows them"
	}
	return fmt.Errorf("there is no context %q; %s", name, hint)
}

var contextName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,62}$`) })

func contextCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "context",
		Short: "Name the servers that you call",
		Long: `Name the servers that you call. One of them is the current one, which kernos call,
kernos MODULE METHOD and kernos doctor use unless --context, --server or the variable
KERNOS_CONTEXT says another. The context local is always there: the daemon of this
user, which is started if it is not running.

A server that is reached with TLS shows a certificate, which must be signed by somebody
whom this machine trusts. If it is signed by somebody else, such as an authority of your
own, --ca-file says whom to trust for this server, and nobody else is. A server that is
given by its address takes its token from KERNOS_TOKEN and the file from KERNOS_CA_FILE.`,
		Example: `  kernos context add office wss://kernos.example.org/ --token-file ~/office.token
  kernos context set office --ca-file ~/office-ca.pem
  kernos context use office
  kernos memory get --key notes/1 --context local`,
		Args: ownCommands,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(contextAddCommand(), contextSetCommand(), contextUseCommand(), contextListCommand(), contextRemoveCommand())
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
			if err := item.check(); err != nil {
				return err
			}
			all, err := readContexts()
			if err != nil {
				return exit.Wrap(err)
			}
			all.Servers[name] = item
			return exit.Wrap(all.save())
		},
	}
	item.add(c)
	return c
}

func contextSetCommand() *cobra.Command {
	var changes contextItem
	c := &cobra.Command{
		Use:   "set NAME",
		Short: "Change what is known about a server",
		Long: `Change what is known about a server: what the flags say, and nothing else. An empty value
forgets what was there.`,
		Example: `  kernos context set office --ca-file office-ca.pem
  kernos context set office --ca-file ""
  kernos context set office --url wss://kernos.example.net/`,
		Args: exactly(1, "NAME"),
		RunE: func(c *cobra.Command, args []string) error {
			if c.Flags().NFlag() == 0 {
				return fmt.Errorf("say what to change; see %s --help", c.CommandPath())
			}
			all, err := readContexts()
			if err != nil {
				return exit.Wrap(err)
			}
			item, ok := all.Servers[args[0]]
			if !ok {
				return all.unknown(args[0])
			}
			for _, f := range []struct {
				flag      string
				from, to  *string
				forgotten *string // it says the same in another way
			}{
				{"url", &changes.URL, &item.URL, nil},
				{"token", &changes.Token, &item.Token, &item.TokenFile},
				{"token-file", &changes.TokenFile, &item.TokenFile, &item.Token},
				{"ca-file", &changes.CAFile, &item.CAFile, nil},
			} {
				if !c.Flags().Changed(f.flag) {
					continue
				}
				*f.to = *f.from
				if f.forgotten != nil && *f.from != "" {
					*f.forgotten = ""
				}
			}
			if c.Flags().Changed("token") && c.Flags().Changed("token-file") {
				return errTwoTokens
			}
			if err := item.check(); err != nil {
				return err
			}
			all.Servers[args[0]] = item
			return exit.Wrap(all.save())
		},
		ValidArgsFunction: completeContexts,
	}
	c.Flags().StringVar(&changes.URL, "url", "", "where the server is")
	changes.add(c)
	return c
}

// add adds the flags that say how to talk to a server.
func (i *contextItem) add(c *cobra.Command) {
	c.Flags().StringVar(&i.Token, "token", "", "the server's `TOKEN`; others who use this machine may see it here, so a file is better")
	c.Flags().StringVar(&i.TokenFile, "token-file", "", "a `FILE` that has the server's token")
	c.Flags().StringVar(&i.CAFile, "ca-file", "", "a `FILE` in PEM with the certificates of those who may sign for the server, in place of those that this machine trusts")
}

var errTwoTokens = errors.New("--token and --token-file both give the token: give one of them")

// check finds what is wrong with an entry before it is kept. Files are then known by paths
// that mean the same everywhere.
func (i *contextItem) check() (err error) {
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

func contextUseCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "use NAME",
		Short: "Make a context the current one",
		Args:  exactly(1, "NAME"),
		RunE: func(c *cobra.Command, args []string) error {
			all, err := readContexts()
			if err != nil {
				return exit.Wrap(err)
			}
			if args[0] != localContext {
				if _, ok := all.Servers[args[0]]; !ok {
					return all.unknown(args[0])
				}
			}
			all.Current = args[0]
			return exit.Wrap(all.save())
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
				return exit.Wrap(err)
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
				if file := all.Servers[name].CAFile; file != "" {
					url += "  (signed by those in " + file + ")"
				}
				if _, err := fmt.Fprintf(c.OutOrStdout(), "%s %-*s  %s\n", mark, width, name, url); err != nil {
					return exit.Wrap(err)
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
				return exit.Wrap(err)
			}
			if _, ok := all.Servers[args[0]]; !ok {
				return all.unknown(args[0])
			}
			delete(all.Servers, args[0])
			if all.Current == args[0] {
				all.Current = ""
			}
			return exit.Wrap(all.save())
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
