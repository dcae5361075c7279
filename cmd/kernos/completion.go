package main

import (
	_ "embed"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"kernos/internal/exit"
)

// bashWords lets the script for bash do without the package bash-completion, which is not
// everywhere.
//
//go:embed completion.bash
var bashWords string

// completionCommand prints the scripts by which shells complete command lines. What they
// show is asked of kernos each time, so the scripts stay valid.
func completionCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "completion",
		Short: "Print the script that lets a shell complete command lines",
		Long: `Print a script for bash, zsh or fish. With it, the tab key completes commands, modules,
methods, parameters, and values that are known: those that a parameter can have, and keys
that you have used.`,
		Example: `  source <(kernos completion bash)                               # in ~/.bashrc
  source <(kernos completion zsh)                                # in ~/.zshrc, after compinit
  kernos completion fish > ~/.config/fish/completions/kernos.fish`,
		Args: ownCommands,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	for shell, script := range map[string]func(*cobra.Command, io.Writer) error{
		"bash": func(root *cobra.Command, w io.Writer) error {
			if err := root.GenBashCompletionV2(w, true); err != nil {
				return err
			}
			_, err := io.WriteString(w, bashWords)
			return err
		},
		"zsh":  func(root *cobra.Command, w io.Writer) error { return root.GenZshCompletion(w) },
		"fish": func(root *cobra.Command, w io.Writer) error { return root.GenFishCompletion(w, true) },
	} {
		c.AddCommand(&cobra.Command{
			Use:               shell,
			Short:             fmt.Sprintf("Print the script for %s", shell),
			Args:              noArguments,
			ValidArgsFunction: cobra.NoFileCompletions,
			RunE:              func(c *cobra.Command, _ []string) error { return exit.Wrap(script(c.Root(), c.OutOrStdout())) },
		})
	}
	return c
}
