package main

import (
	"context"

	"github.com/spf13/cobra"

	"kernos/cmd/kernos/clients"
	"kernos/cmd/kernos/settings"
	"kernos/cmd/kernos/terminal"
)

func mcpInstallCommand(k *kernels) *cobra.Command {
	var yes, undo, print bool
	c := &cobra.Command{
		Use:   "install [CLIENT]",
		Short: "Enter Kernos into the configuration of an LLM client",
		Long: `Enter Kernos into the configuration file of an LLM client, as an MCP server that the client
starts. The change is shown first, and made when you agree. Everything else in the file stays
as it is, with its comments. Without CLIENT, the clients are listed.

The client acts for a token of its own (preset agent), which has the client's name: kernos log
names it, and kernos token update CLIENT changes what it may do. The file has no secret in it.`,
		Example: `  kernos mcp install claude-code
  kernos mcp install cursor --yes
  kernos mcp install vscode --print
  kernos mcp install codex --undo`,
		Args: arguments(0, 1, "name one client: kernos mcp install CLIENT"),
		RunE: func(c *cobra.Command, args []string) error {
			s := terminal.NewScreen(c.OutOrStdout(), c.ErrOrStderr())
			if len(args) == 0 {
				return clients.List(s)
			}
			client, ok := clients.Find(args[0])
			if !ok {
				return clients.Unknown(args[0])
			}
			server, err := clients.Self(client.Name)
			if err != nil {
				return err
			}
			if print {
				text, err := client.Render(server)
				if err != nil {
					return err
				}
				return s.Write(text)
			}
			home, err := settings.UsableHome()
			if err != nil {
				return err
			}
			i := clients.Installation{
				Client: client, Screen: s, In: c.InOrStdin(), Yes: yes,
				Ask: func(f func(context.Context, caller) error) error {
					return asking(c, k.any, func(ctx context.Context, call caller, _ *terminal.Screen) error { return f(ctx, call) })
				},
			}
			if undo {
				return i.Undo(c.Context(), home.Clients())
			}
			return i.Make(c.Context(), server, home.Clients())
		},
		ValidArgsFunction: k.completesFirst(func(context.Context, opener) []string { return clients.Names() }),
	}
	f := c.Flags()
	f.BoolVarP(&yes, "yes", "y", false, "make the change without asking")
	f.BoolVar(&undo, "undo", false, "make the file what it was, and revoke the client's token")
	f.BoolVar(&print, "print", false, "print what a file would have, and change nothing")
	c.MarkFlagsMutuallyExclusive("undo", "print")
	return c
}
