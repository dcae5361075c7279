package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"kernos/cmd/kernos/line"
	"kernos/cmd/kernos/terminal"
	"kernos/internal/exit"
)

// documentCommands returns the commands for memory and files as a person handles them.
func documentCommands() []*cobra.Command {
	return []*cobra.Command{catCommand(), cpCommand(), editCommand()}
}

// documentCommand gives a command the documents of the server that it is for.
func documentCommand(c *cobra.Command, run func(ctx context.Context, docs documents, s *terminal.Screen, args []string) error) *cobra.Command {
	addContextFlag(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		return exit.OnSignal(c.Context(), func(ctx context.Context) (err error) {
			docs, done, err := openDocuments(ctx, contextOf(c), c.InOrStdin(), c.OutOrStdout())
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, done()) }()
			return run(ctx, docs, terminal.NewScreen(c.OutOrStdout(), c.ErrOrStderr()), args)
		})
	}
	return c
}

func catCommand() *cobra.Command {
	return documentCommand(&cobra.Command{
		Use:   "cat NAME…",
		Short: "Write a value of the memory, or a file, as it is",
		Long: `Write what a name stands for to standard output: a text and a file as they are, any
other value of the memory as JSON. A name is a key of the memory, such as notes/1, or a
file of the tree, such as os://agents/writer.md.`,
		Example: `  kernos cat notes/1
  kernos cat os://proc/version
  kernos cat os://agents/logo.png > logo.png`,
		Args:              arguments(1, math.MaxInt, "say what to write: kernos cat KEY, or kernos cat os://…"),
		ValidArgsFunction: completeNames,
	}, func(ctx context.Context, docs documents, s *terminal.Screen, args []string) error {
		for _, arg := range args {
			if err := docs.Show(ctx, parseLocation(arg, Memory), s); err != nil {
				return err
			}
		}
		return nil
	})
}

func cpCommand() *cobra.Command {
	return documentCommand(&cobra.Command{
		Use:   "cp FROM TO",
		Short: "Copy between memory, files of the tree and files of this machine",
		Long: `Copy one document. FROM and TO are each a file of this machine, a file of the tree,
os://…, or a key of the memory, memory:KEY; - is standard input or output. A TO that is a
directory, or ends with a slash, gets a document of the same name.

A file that is copied into the memory becomes a text there, and must be UTF-8; kernos memory
set KEY value:=@FILE stores JSON. A value of the memory that isn't a text becomes JSON text
in a file, and stays what it is when it is copied to another key.`,
		Example: `  kernos cp notes.md memory:notes/today
  kernos cp os://agents/logo.png .
  kernos cp memory:notes/1 memory:archive/`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 2 {
				return errors.New("say what to copy where: kernos cp FROM TO; see kernos cp --help")
			}
			if parseLocation(args[0], Local).Kind == Local && parseLocation(args[1], Local).Kind == Local {
				return fmt.Errorf("%s and %s are both files of this machine; a key of the memory is written memory:KEY, and a file of the tree os://…", args[0], args[1])
			}
			return nil
		},
	}, func(ctx context.Context, docs documents, _ *terminal.Screen, args []string) error {
		return docs.Copy(ctx, parseLocation(args[0], Local), parseLocation(args[1], Local))
	})
}

func editCommand() *cobra.Command {
	return documentCommand(&cobra.Command{
		Use:   "edit NAME",
		Short: "Change a value of the memory, or a file, with an editor",
		Long: `Change what a name stands for with the editor that VISUAL or EDITOR names: a key of the
memory, such as notes/1, or a file of the tree, os://…. What doesn't exist is made. A value
that isn't a text is edited as JSON.

If it was changed while it was edited, nothing is stored, and the status is 1; the edited
text stays in a file, whose name is printed.`,
		Example: `  kernos edit notes/1
  EDITOR='code --wait' kernos edit os://agents/writer.md`,
		Args:              one("say what to edit: kernos edit KEY, or kernos edit os://…"),
		ValidArgsFunction: completeNames,
	}, func(ctx context.Context, docs documents, s *terminal.Screen, args []string) error {
		editor := cmp.Or(os.Getenv("VISUAL"), os.Getenv("EDITOR"), "vi")
		return docs.Edit(ctx, parseLocation(args[0], Memory), editor, s)
	})
}

// completeNames completes a key of the memory, or a file of the tree.
func completeNames(c *cobra.Command, _ []string, word string) ([]string, cobra.ShellCompDirective) {
	parameter := []string{"memory", "get", "--key"}
	if strings.HasPrefix(word, "os:") {
		parameter = []string{"vfs", "read", "--uri"}
	}
	return line.CompleteCall(c, parameter, word)
}
