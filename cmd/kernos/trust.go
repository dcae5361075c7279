package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"kernos/cmd/kernos/settings"
	"kernos/cmd/kernos/terminal"
	"kernos/internal/exit"
)

func trustCommands() []*cobra.Command {
	both := []*cobra.Command{trustCommand(), untrustCommand()}
	for _, c := range both {
		concernsThisMachine(c, false)
	}
	return both
}

func trustCommand() *cobra.Command {
	var execute bool
	c := &cobra.Command{
		Use:   "trust [DIR]",
		Short: "Make the folder os of a directory a part of os://, or list the directories that are",
		Long: `Trust a directory: the files of its folder os become a part of os://, after those of the home
directory, which they don't hide. The code in os/syscalls is registered as yours, and agents
and skills are offered to LLM clients. Trust what you have written, or have read.

The directory is remembered by its path, without symbolic links. It, its folder os and the
directories above it must be in your hands alone. A running daemon takes notice at once, and
no syscall does this: neither a token nor a session can trust a directory.

With --execute, the tools that agents and skills name in it are executed, to print what they
are for. Nothing in the folder can be written by way of os:// then. Without --execute, they
are described as ERROR: EXECUTION_SKIPPED.

Without DIR, the trusted directories are listed.`,
		Example: `  kernos trust .
  kernos trust ~/agents --execute
  kernos trust`,
		Args: arguments(0, 1, "name one directory: kernos trust DIR"),
		RunE: func(c *cobra.Command, args []string) error {
			home, err := settings.UsableHome()
			if err != nil {
				return err
			}
			s := terminal.NewScreen(c.OutOrStdout(), c.ErrOrStderr())
			if len(args) == 0 {
				if execute {
					return errors.New("--execute is for a directory: kernos trust DIR --execute")
				}
				folders, err := home.Trusted()
				if err == nil && len(folders) == 0 {
					s.Note("no directory is trusted; kernos trust DIR trusts one")
				}
				for _, f := range folders {
					if err == nil {
						err = s.Line(f.String())
					}
				}
				return exit.Wrap(err)
			}
			f, err := home.Trust(args[0], execute)
			if err != nil {
				return exit.Wrap(err)
			}
			text := fmt.Sprintf("%s is trusted: the files of its folder os are a part of os://", f.Path)
			if f.Execute {
				text += ", and its tools are executed to describe themselves"
			}
			if _, err := os.Stat(f.Files()); errors.Is(err, fs.ErrNotExist) {
				text += "; it has no folder os yet"
				if filepath.Base(f.Path) == filepath.Base(f.Files()) {
					text += fmt.Sprintf(" (kernos trust %s is for the directory that this one is in)", filepath.Dir(f.Path))
				}
			}
			return exit.Wrap(s.Line(text))
		},
		ValidArgsFunction: directories,
	}
	c.Flags().BoolVar(&execute, "execute", false, "execute its tools, so that they describe themselves")
	return c
}

func untrustCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "untrust DIR",
		Short: "Take back what kernos trust has done for a directory",
		Long: `Take the trust in a directory back. Its files leave os://, and code that was registered from
them is no longer served; jobs that need it wait, and kernos trust DIR brings it back with its
versions. A running daemon takes notice at once.`,
		Example: "  kernos untrust .",
		Args:    arguments(1, 1, "name one directory: kernos untrust DIR; kernos trust lists them"),
		RunE: func(c *cobra.Command, args []string) error {
			home, err := settings.UsableHome()
			if err != nil {
				return err
			}
			f, was, err := home.Untrust(args[0])
			if err == nil && !was {
				err = fmt.Errorf("%s isn't trusted; kernos trust lists the directories that are", args[0])
			}
			if err != nil {
				return exit.Wrap(err)
			}
			s := terminal.NewScreen(c.OutOrStdout(), c.ErrOrStderr())
			return exit.Wrap(s.Line(f.Path + " is no longer trusted: its files have left os://, and its code isn't served"))
		},
		ValidArgsFunction: directories,
	}
}

// directories completes directories.
func directories(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return nil, cobra.ShellCompDirectiveFilterDirs
}
