package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"kernos/cmd/kernos/server"
	"kernos/cmd/kernos/terminal"
	"kernos/internal/exit"
)

func contextCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "context",
		Short: "Name the servers that you call",
		Long: `Name the servers that you call. One of them is the current one: commands that ask a kernel
ask that one, unless --context, --server or the variable KERNOS_CONTEXT names another. The
context local always exists: it is the daemon of this user. serve, convert and pipe --inline
concern this machine whatever the context is; restore and kernos token itself do too, and
refuse to run while another context is the current one.

Contexts belong to a home: they are in contexts.yaml there (KERNOS_HOME).

A server that is reached with TLS shows a certificate, which must be signed by an authority
that this machine trusts. If another authority has signed it, such as one of your own,
--ca-file names the only certificates to trust for this server. A server that is
given by its address takes its token from KERNOS_TOKEN and the file from KERNOS_CA_FILE.`,
		Example: `  kernos context add office wss://kernos.example.org/ --token-file ~/office.token
  kernos context set office --ca-file ~/office-ca.pem
  kernos context use office
  kernos memory get notes/1 --context local`,
		Args: ownCommands,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(contextAddCommand(), contextSetCommand(), contextListCommand(),
		changeContext("use", "Make a context the current one", (*server.Contexts).Use),
		changeContext("remove", "Forget a context", (*server.Contexts).Remove))
	return c
}

func contextAddCommand() *cobra.Command {
	var item server.Item
	c := &cobra.Command{
		Use:   "add NAME URL",
		Short: "Give a server a name",
		Args:  arguments(2, 2, "give the server a name and its URL: kernos context add NAME URL"),
		RunE: func(c *cobra.Command, args []string) error {
			item.URL = args[1]
			return server.ChangeContexts(func(all *server.Contexts) error { return all.Add(args[0], item) })
		},
	}
	addServerFlags(c, &item)
	return c
}

func contextSetCommand() *cobra.Command {
	var changes server.Item
	c := &cobra.Command{
		Use:   "set NAME",
		Short: "Change what is known about a server",
		Long: `Change the settings of a server that the flags name, and no others. An empty value removes
the setting.`,
		Example: `  kernos context set office --ca-file office-ca.pem
  kernos context set office --ca-file ""
  kernos context set office --url wss://kernos.example.net/`,
		Args: oneListed("context"),
		RunE: func(c *cobra.Command, args []string) error {
			if c.Flags().NFlag() == 0 {
				return fmt.Errorf("say what to change; see %s --help", c.CommandPath())
			}
			return server.ChangeContexts(func(all *server.Contexts) error { return all.Set(args[0], changes, c.Flags().Changed) })
		},
		ValidArgsFunction: completeContexts,
	}
	c.Flags().StringVar(&changes.URL, "url", "", "where the server is: a `URL`")
	addServerFlags(c, &changes)
	return c
}

// addServerFlags adds the flags that describe how to talk to a server.
func addServerFlags(c *cobra.Command, i *server.Item) {
	c.Flags().StringVar(&i.Token, "token", "", "the server's `TOKEN`; others who use this machine may see it here, so a file is better")
	c.Flags().StringVar(&i.TokenFile, "token-file", "", "a `FILE` that has the server's token")
	c.Flags().StringVar(&i.CAFile, "ca-file", "", "a `FILE` in PEM with the certificates that may sign for the server, in place of those that this machine trusts")
}

// changeContext returns a command that changes the contexts, given the name of one.
func changeContext(use, short string, change func(all *server.Contexts, name string) error) *cobra.Command {
	return &cobra.Command{
		Use:   use + " NAME",
		Short: short,
		Args:  oneListed("context"),
		RunE: func(c *cobra.Command, args []string) error {
			return server.ChangeContexts(func(all *server.Contexts) error { return change(all, args[0]) })
		},
		ValidArgsFunction: completeContexts,
	}
}

func contextListCommand() *cobra.Command {
	return prints(&cobra.Command{
		Use:   "list",
		Short: "List the contexts",
		Args:  noArguments,
	}, "table", func(c *cobra.Command, _ []string, s *terminal.Screen, o terminal.Output) error {
		all, err := server.ReadContexts()
		if err != nil {
			return exit.Wrap(err)
		}
		list := all.List()
		return writeValue(c.Context(), s, o, list, func() error { return server.ShowContexts(list, s) })
	})
}

func completeContexts(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	all, err := server.ReadContexts()
	if err != nil || len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return all.Names(), cobra.ShellCompDirectiveNoFileComp
}

// addContextFlag adds the flag that chooses the server.
func addContextFlag(c *cobra.Command) {
	c.Flags().String("context", "", "ask the server of this context (kernos context list): its `NAME`")
	_ = c.RegisterFlagCompletionFunc("context", func(c *cobra.Command, _ []string, word string) ([]string, cobra.ShellCompDirective) {
		return completeContexts(c, nil, word)
	})
}

// concernsThisMachine makes a command refuse every context but local. One that asks no server runs
// whatever the current context is; any other also refuses to run while another context is the current
// one, because the person may expect it to concern that server.
func concernsThisMachine(c *cobra.Command, asksNoServer bool) {
	name := c.Flags().String("context", "", "")
	_ = c.Flags().MarkHidden("context")
	c.PreRunE = func(c *cobra.Command, _ []string) error {
		switch *name {
		case server.LocalContext:
			return nil
		case "":
		default:
			return fmt.Errorf("%s concerns the daemon and the state of this user on this machine; run it where the server runs", c.CommandPath())
		}
		if asksNoServer {
			return nil
		}
		all, err := server.ReadContexts()
		if err != nil {
			return exit.Wrap(err)
		}
		if current := all.CurrentName(); current != server.LocalContext {
			return fmt.Errorf("%s concerns this machine, and the current context is %s; add --context local, or run it where %s runs", c.CommandPath(), current, current)
		}
		return nil
	}
}
