package main

import "github.com/spf13/cobra"

func mcpCommand(open opener) *cobra.Command {
	c := &cobra.Command{
		Use:   "mcp",
		Short: "The Model Context Protocol: LLM clients of this kernel",
		Args:  ownCommands,
		RunE:  func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(mcpInstallCommand(open))
	return c
}
