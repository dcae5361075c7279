package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"kernos/cmd/kernos/line"
	"kernos/cmd/kernos/settings"
	"kernos/cmd/kernos/terminal"
	"kernos/daemon"
	"kernos/internal/exit"
	"kernos/internal/nearest"
	"kernos/kernel"
)

// version is the version of Kernos; this is the only place that states it.
var version = "0.21.0"

// revision is the commit that make release was run on, which sets it when it links the program; "" in other builds.
var revision string

// commandGroups are the commands as the help text shows them. A command without a group comes last.
var commandGroups = []struct {
	title string
	names []string
}{
	{"Calls, values and files", []string{"call", "cat", "cp", "describe", "edit", "ls", "secret"}},
	{"Jobs", []string{"job"}},
	{"Conversations and models", []string{"chat", "model", "session"}},
	{"What happened", []string{"graph", "log", "replay", "search", "show", "watch"}},
	{"The daemon", []string{"backup", "cluster", "config", "console", "context", "doctor", "restart", "restore", "serve", "service", "status", "stop", "token", "trust", "untrust", "upgrade"}},
	{"Programs and code", []string{"convert", "handle", "mcp", "pipe", "register", "test", "types", "unregister", "versions"}},
}

func rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "kernos",
		Short: "The message kernel for AI agents",
		Long: `Kernos is the message kernel for AI agents: one set of self-describing operations
(syscalls), reached through one message format, one JSON object per line.

  kernos memory set notes/1 --value milk
  kernos memory get notes/1
  kernos log
  echo '{"kind":"query","type":"Ping","data":{"payload":1},"metadata":{"id":"a","timestamp":0}}' | kernos

A word that isn't a command is a module: kernos memory get calls Memory.Get. Standard input
that isn't a terminal, and no command, means kernos pipe.`,
		Version:       fullVersion(),
		SilenceErrors: true,
		SilenceUsage:  true,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return fmt.Errorf("unknown command %q; see kernos help", args[0])
			}
			return nil
		},
		RunE: func(c *cobra.Command, _ []string) error { return overview(c.OutOrStdout()) },
		ValidArgsFunction: func(c *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
			found, directive := line.CompleteModules(c, args, word)
			return withoutCommands(c, found), directive
		},
	}
	root.SetVersionTemplate("kernos {{.Version}}\n")
	root.AddCommand(backupCommand(), callCommand(), chatCommand(), completionCommand(), configCommand(), consoleCommand(), contextCommand(), convertCommand(), describeCommand(), docsCommand(), doctorCommand(),
		handleCommand(), jobCommand(), lsCommand(), mcpCommand(), modelCommand(), pipeCommand(), restartCommand(), restoreCommand(), clusterCommand(), secretCommand(), serveCommand(), serviceCommand(), sessionCommand(), statusCommand(), stopCommand(), tokenCommand(), upgradeCommand())
	root.AddCommand(historyCommands()...)
	root.AddCommand(documentCommands()...)
	root.AddCommand(scriptCommands()...)
	root.AddCommand(trustCommands()...)
	for _, g := range commandGroups {
		root.AddGroup(&cobra.Group{ID: g.title, Title: g.title + ":"})
	}
	for _, c := range root.Commands() {
		for _, g := range commandGroups {
			if slices.Contains(g.names, c.Name()) {
				c.GroupID = g.title
			}
		}
		switch c.Name() {
		case "serve", "convert", "upgrade":
			concernsThisMachine(c, true)
		case "config", "restart", "restore", "token":
			concernsThisMachine(c, false)
		}
	}
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		if invalid, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
			err = settings.InvalidFlag("--"+invalid.GetFlag().Name, invalid.GetFlag(), invalid.GetValue(), invalid.Unwrap())
		}
		if unknown, ok := errors.AsType[*pflag.NotExistError](err); ok {
			return fmt.Errorf("%w; %s", err, cmp.Or(flagHint(c, unknown.GetSpecifiedName()), "see "+c.CommandPath()+" --help"))
		}
		return fmt.Errorf("%w; see %s --help", err, c.CommandPath())
	})
	root.SetHelpCommand(helpCommand())
	help := root.HelpFunc()
	root.SetHelpFunc(func(c *cobra.Command, args []string) {
		help(c, args)
		if c == root || c.Annotations[line.ModuleCommand] != "" {
			fmt.Fprint(c.OutOrStdout(), moduleHelp(c))
		}
	})
	return root
}

// checkHelp returns a function that reports whether a help text could not be written: the library does not.
func checkHelp(root *cobra.Command) func() error {
	var lost error
	help := root.HelpFunc()
	root.SetHelpFunc(func(c *cobra.Command, args []string) {
		out := c.OutOrStdout()
		var text bytes.Buffer
		c.SetOut(&text)
		help(c, args)
		c.SetOut(out)
		_, lost = out.Write(text.Bytes())
	})
	return func() error { return exit.Wrap(lost) }
}

// helpCommand shows the help of a command, of a module or of a method. A word that isn't a command is
// asked of the server, as it is by kernos MODULE METHOD --help.
func helpCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "help [COMMAND | MODULE [METHOD]]",
		Short: "Show the help of a command, a module or a method",
		Example: `  kernos help serve
  kernos help memory
  kernos help memory set --context office`,
		DisableFlagParsing:    true, // kernos call parses the flags
		DisableFlagsInUseLine: true,
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 1 && (args[0] == "-h" || args[0] == "--help") {
				return c.Help()
			}
			target, rest, err := c.Root().Find(args)
			switch {
			case len(args) == 0 || err == nil && target != c.Root() && len(rest) == 0:
				return target.Help()
			case target == c.Root() || err != nil:
				return line.Call(c, append(slices.Clone(args), "--help"))
			case target.Name() == "call":
				return line.Call(c, append(slices.Clone(rest), "--help"))
			case target.Annotations[line.ModuleCommand] != "":
				return line.Call(c, slices.Concat([]string{target.Name()}, rest, []string{"--help"}))
			}
			return unknownWord(target, rest[0], "see "+target.CommandPath()+" --help")
		},
		ValidArgsFunction: func(c *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
			var found []string
			target, rest, err := c.Root().Find(args)
			if err == nil && len(rest) == 0 && (len(args) == 0 || target != c.Root()) {
				for _, known := range target.Commands() {
					if known.IsAvailableCommand() && strings.HasPrefix(known.Name(), word) {
						found = append(found, line.Described(known.Name(), known.Short))
					}
				}
			}
			if len(args) == 0 || len(args) == 1 && (target == c.Root() || target.Annotations[line.ModuleCommand] != "") {
				found = append(found, withoutCommands(target, line.Completions(args, word))...)
			}
			return found, cobra.ShellCompDirectiveNoFileComp
		},
	}
	listsItsFlags(c)
	return c
}

// flagHint asks about the flags of a command that are near to a name, or returns "".
func flagHint(c *cobra.Command, name string) string {
	var flags []string
	c.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			flags = append(flags, "--"+f.Name)
		}
	})
	return nearest.Hint("--"+name, flags)
}

// noArguments refuses arguments for a command that takes none.
func noArguments(c *cobra.Command, args []string) error {
	if c.HasAvailableSubCommands() {
		return ownCommands(c, args)
	}
	if len(args) > 0 {
		return fmt.Errorf("%s takes no arguments, got %q; see %s --help", c.CommandPath(), args[0], c.CommandPath())
	}
	return nil
}

// ownCommands refuses arguments for a command that has commands, and lists those.
func ownCommands(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	var names []string
	for _, known := range c.Commands() {
		names = append(names, known.Name())
	}
	hint := cmp.Or(nearest.Hint(args[0], names), "there are "+strings.Join(names, ", "))
	return unknownWord(c, args[0], hint)
}

func unknownWord(c *cobra.Command, word, hint string) error {
	return &exit.Error{Status: exit.Unknown, Cause: fmt.Errorf("%s has no command %q; %s", c.CommandPath(), word, hint)}
}

// overview prints what fits a small terminal: the names of all commands and modules.
func overview(w io.Writer) error {
	rows := make([][]string, 0, len(commandGroups)+1)
	for _, g := range commandGroups {
		rows = append(rows, []string{g.title, strings.Join(g.names, ", ")})
	}
	rows = append(rows, []string{"Modules", strings.Join(moduleNames(), ", ")})
	s := &terminal.Screen{Out: w, Width: 80}
	return errors.Join(s.Line(`Kernos is the message kernel for AI agents.

  kernos chat                              talk with a model
  kernos memory set notes/1 --value milk   call Memory.Set
  kernos log                               see what has happened
`), s.Explained(rows), s.Line(`
kernos help explains the commands, kernos help COMMAND one of them,
kernos MODULE lists the methods of a module, and kernos docs has the pages of
the documentation.`))
}

// namespaces returns the built-in modules.
func namespaces() []kernel.Namespace {
	r, err := daemon.Definitions()
	if err != nil {
		return nil
	}
	return r.All().Namespaces()
}

// moduleNames returns the names of the built-in modules.
func moduleNames() (names []string) {
	for _, n := range namespaces() {
		names = append(names, n.Name)
	}
	return names
}

// moduleHelp returns what a help text has from definitions: the modules, or the methods of the module of a command.
func moduleHelp(c *cobra.Command) string {
	if !c.HasParent() {
		return "\nModules: " + strings.Join(moduleNames(), ", ") + "\nkernos MODULE lists the methods of one of them, and kernos ls all syscalls.\n"
	}
	methods := "\nMethods:\n"
	for _, n := range namespaces() {
		for _, m := range n.Methods {
			if n.Name == c.Annotations[line.ModuleCommand] && !hasCommand(c, m.Method) {
				methods += fmt.Sprintf("  %-11s %s\n", m.Method, m.Syscall.Title)
			}
		}
	}
	return methods
}

// hasCommand reports whether a command has a command of this name.
func hasCommand(c *cobra.Command, name string) bool {
	return slices.ContainsFunc(c.Commands(), func(own *cobra.Command) bool { return own.Name() == name || own.HasAlias(name) })
}

func fullVersion() string {
	if revision != "" {
		return version + " (" + revision + ")"
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return version
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" && len(s.Value) >= 12 {
			return version + " (" + s.Value[:12] + ")"
		}
	}
	return version
}
