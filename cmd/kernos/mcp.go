package main

import (
	"errors"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"kernos/cmd/kernos/line"
	"kernos/cmd/kernos/server"
)

// mcpToken is the token that kernos mcp acts for by default. It is made when it is first needed.
const mcpToken = "mcp"

func mcpCommand() *cobra.Command {
	var as string
	var owner bool
	var tools []string
	c := &cobra.Command{
		Use:   "mcp [--as NAME | --owner] [--tools core|all|PATTERN]...",
		Short: "Serve LLM clients over the Model Context Protocol, and use other servers of it",
		Long: `Serve the Model Context Protocol on standard input and output: for clients of language
models, which start this command. Every syscall is a tool; memory, files, blobs and
recorded messages are resources; agents and skills are prompts; jobs are tasks. The daemon
does the work, and is started if it isn't running. It serves the same over HTTP, at /mcp.

The client acts for a token, with the token's rights, and every record has its name:
by default for "mcp", which is made with the preset agent. --owner gives the client the
rights of the owner.

tools/list has a few everyday tools by default, and those that were registered as code:
Syscall_Search finds the others, and Syscall_Call calls them. --tools chooses otherwise.`,
		Example: `  kernos mcp
  kernos mcp --as ci --tools 'Memory.*' --tools Http.Fetch
  kernos mcp --owner --tools all`,
		Args: ownCommands,
		RunE: func(c *cobra.Command, _ []string) error {
			if owner && as != "" {
				return errors.New("--owner and --as exclude each other")
			}
			opened, err := server.Open(c.Context(), server.Options{Context: contextOf(c), Start: true})
			if err != nil {
				return err
			}
			query := url.Values{}
			if len(tools) > 0 {
				query.Set("tools", strings.Join(tools, ","))
			}
			server := opened.Server()
			switch {
			case server.Daemon == nil && (owner || as != ""):
				err = errors.New("kernos mcp uses the token of the context; leave out --as and --owner")
			case server.Daemon != nil && !owner:
				if as == "" {
					as = mcpToken
					_, err = line.MakeToken(c.Context(), opened.Call, mcpToken)
				}
				query.Set("as", as)
			}
			if err = errors.Join(err, opened.Close()); err != nil {
				return err
			}
			return server.ServeMCP(c.Context(), query, c.InOrStdin(), c.OutOrStdout(), func(note string) { c.PrintErrln("kernos: --tools: " + note) })
		},
	}
	addContextFlag(c)
	c.Flags().StringVar(&as, "as", "", "the `NAME` of the token that the client acts for (default mcp)")
	c.Flags().BoolVar(&owner, "owner", false, "act for the owner")
	c.Flags().StringArrayVar(&tools, "tools", nil, "the `TOOLS` to list: core, all, or patterns such as Memory.* (default core)")
	c.AddCommand(mcpInstallCommand())
	c.AddCommand(mcpHostCommands()...)
	return moduleCommand(c)
}
